#pragma once
// The description of the command line as plain data: commands, options and their values, read from
// CLI11's own description. --json-usage, completions and manual pages are generated from it, so
// that none of them can lack an option.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace rapt::cli {

struct OptionUsage {
  std::vector<std::string> names;    // "--force", "-f"; of an argument its one name, "SPEC"
  std::string value;                 // "SIZE"; empty: the option has no value
  std::string help;                  // as --help has it
  std::string fallback;              // the default, in the words of the help; or empty
  std::vector<std::string> choices;  // words for the value (choices.h), not always the only ones
  bool file = false;                 // the value may be the name of a file
  bool repeatable = false;
  std::string group;  // the heading in --help

  bool value_optional() const { return value.starts_with('['); }  // "[F]"
};

struct CommandUsage {
  std::string name;   // "rapt attend"
  std::string help;   // one line
  std::string notes;  // the text of --help below the options
  std::vector<OptionUsage> arguments, options;
  std::vector<CommandUsage> commands;

  std::string word() const;  // "attend": the last word of the name
};

// The usage of a command, without options that --help hides.
CommandUsage usage_of(CLI::App& app);

// "--mask SPEC", "--force, -f": all names, and the value if it takes one.
std::string title_of(const OptionUsage& option);

// The words, separated by blanks.
std::string joined(const std::vector<std::string>& words);

// The groups of the options, in the order in which they come.
std::vector<std::string> groups_of(const std::vector<OptionUsage>& options);

}  // namespace rapt::cli
