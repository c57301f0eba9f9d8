// Fish 3 and later.
#include <algorithm>

#include "cli/self/completion_scripts.h"

namespace rapt::cli {
namespace {

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string line_of(const std::string& condition, const OptionUsage& option) {
  std::string line = "complete -c rapt -n " + fish_quoted(condition);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  // Fish itself completes files after the colon of "lengths:", if files are allowed.
  const bool files = option.file || std::any_of(option.choices.begin(), option.choices.end(),
                                                [](auto& word) { return word.ends_with(':'); });
  // -r: wants a value; -f: no files for it; -F: files, also beside words.
  if (!option.value.empty() && !option.value_optional()) line += files ? " -r -F" : " -r -f";
  if (!option.choices.empty()) line += " -a " + fish_quoted(joined(option.choices));
  return line + " -d " + fish_quoted(option.help) + "\n";
}

void add_command(std::string& script, const CommandUsage& command, const std::string& condition) {
  for (const OptionUsage& option : command.options) script += line_of(condition, option);
  bool files = false;
  for (const OptionUsage& argument : command.arguments) {
    files |= argument.file;
    if (!argument.choices.empty())
      script += "complete -c rapt -n " + fish_quoted(condition) + " -f -a " +
                fish_quoted(joined(argument.choices)) + " -d " + fish_quoted(argument.value) + "\n";
  }
  if (!files) script += "complete -c rapt -n " + fish_quoted(condition) + " -f\n";
}

}  // namespace

std::string fish_completion(const CommandUsage& program) {
  const std::string first = "__fish_use_subcommand";
  std::string script = "# Fish completion for rapt, written by `rapt completions fish`.\n";
  for (const OptionUsage& option : program.options) script += line_of(first, option);
  for (const CommandUsage& command : program.commands)  // files stay possible: rapt FILE
    script += "complete -c rapt -n " + first + " -a " + command.word() + " -d " +
              fish_quoted(command.help) + "\n";
  for (const CommandUsage& command : program.commands)
    add_command(script, command, "__fish_seen_subcommand_from " + command.word());
  return script;
}

}  // namespace rapt::cli
