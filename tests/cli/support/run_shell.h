#pragma once
// Runs other programs: shells that read completions, and typesetters that read manual pages.
#include <string>

namespace rapt::cli_test {

struct ShellRan {
  int exit = -1;
  std::string out;  // standard output and standard error
};

// Runs a command by sh in a folder.
ShellRan run_shell(const std::string& folder, const std::string& command);

bool is_installed(const std::string& program);

}  // namespace rapt::cli_test
