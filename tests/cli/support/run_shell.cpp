#include "cli/support/run_shell.h"

#include <sys/wait.h>

#include <cstdio>

namespace rapt::cli_test {

ShellRan run_shell(const std::string& folder, const std::string& command) {
  ShellRan ran;
  std::FILE* const pipe = popen(("cd '" + folder + "' && {\n" + command + "\n} 2>&1").c_str(), "r");
  if (!pipe) return ran;
  char buffer[4096];
  for (size_t count; (count = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;)
    ran.out.append(buffer, count);
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.exit = WEXITSTATUS(status);
  return ran;
}

bool is_installed(const std::string& program) {
  return run_shell("/", "command -v " + program).exit == 0;
}

}  // namespace rapt::cli_test
