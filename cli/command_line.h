#pragma once
// Parses a command line: the command and its options. Parsing prints nothing, opens no file and
// computes nothing; it only checks whether the first word names a file.
#include <string>
#include <vector>

#include "cli/commands.h"

namespace rapt::cli {

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;  // the commands refer to it
  CommandLine& operator=(const CommandLine&) = delete;

  // The command that the arguments name; null if they name none. May be called again. Throws
  // UsageAsked for --json-usage, CLI::Success for --help and --version, whose texts root().exit()
  // prints, else a Failure or CLI::Error.
  const Command* read(std::vector<std::string> words);

  // "rapt attend", once read() knows it.
  const std::string& command_name() const { return command_name_; }

  CLI::App& root() { return root_; }
  const std::vector<Command>& commands() const { return commands_; }

 private:
  CLI::App root_;
  std::vector<Command> commands_;
  std::string command_name_ = "rapt";
};

}  // namespace rapt::cli
