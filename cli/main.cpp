// rapt: the command line. Runs the requested command and turns exceptions into an exit code.
//
// Results go to stdout, narration and errors to stderr.
#include <cstdio>

#include "cli/command_line.h"
#include "cli/output/tensor_output.h"
#include "cli/process/failure.h"
#include "cli/process/fatal_signals.h"
#include "cli/process/interrupt.h"
#include "cli/process/standard_streams.h"
#include "cli/self/json_usage.h"

namespace {

using namespace rapt::cli;

Exit run(const std::vector<std::string>& words, std::string& command_name) {
  CommandLine line;
  const Command* command = nullptr;
  try {
    command = line.read(words);
  } catch (const UsageAsked& asked) {
    std::puts(usage_document(*asked.app).c_str());
    finish_stdout();
    return Exit::ok;
  } catch (const CLI::Success& asked) {  // --help, --version
    line.root().exit(asked);
    finish_stdout();
    return Exit::ok;
  } catch (...) {
    command_name = line.command_name();
    throw;
  }
  if (command == nullptr) {
    std::fputs(line.root().help().c_str(), stderr);
    return Exit::usage;
  }
  command_name = line.command_name();
  clean_up_on_fatal_signals(command_name);
  command->check();
  command->run();
  finish_stdout();
  return Exit::ok;
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_streams();
  interruption();  // from here on Ctrl-C leaves no incomplete file
  std::string command_name = "rapt";
  try {
    return static_cast<int>(run({argv + 1, argv + argc}, command_name));
  } catch (...) {
    return static_cast<int>(report_failure(command_name));
  }
}
