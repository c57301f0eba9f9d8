// Zsh: a function for its own completion system, to be found as _rapt in $fpath.
#include <algorithm>

#include "cli/self/completion_scripts.h"

namespace rapt::cli {
namespace {

constexpr const char* kZshBegin = R"zsh(#compdef rapt
# Zsh completion for rapt, written by `rapt completions zsh`.

# Words that end in a colon want more behind it; where it is not a word, it is a file.
_rapt_words() {
  if compset -P '*:'; then
    _files
  else
    compadd -S '' "$@"
  fi
}

_rapt() {
  local context state state_descr line
  local curcontext=$curcontext
  typeset -A opt_args
  local -a commands
)zsh";

// Replaces `of` by a backslash and itself.
std::string escaped(const std::string& text, const std::string& of) {
  std::string out;
  for (const char c : text) {
    if (of.find(c) != std::string::npos) out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The name of a value, and its completions: "F:_files", "T:(f32 bf16)", "X: ".
std::string value_of(const OptionUsage& option) {
  const std::string words = escaped(joined(option.choices), ":\\");
  const bool more = std::any_of(option.choices.begin(), option.choices.end(),
                                [](const std::string& word) { return word.ends_with(':'); });
  const std::string action = option.choices.empty() ? (option.file ? "_files" : " ")
                             : more                 ? "_rapt_words " + words
                                                    : "(" + words + ")";
  return escaped(option.value, ":\\") + ":" + action;
}

void add_options(std::string& script, const CommandUsage& command, const std::string& indent) {
  for (const OptionUsage& option : command.options) {
    // Names of one option exclude each other, unless it may come again.
    for (const std::string& name : option.names) {
      std::string spec = option.repeatable ? "*" : "(" + joined(option.names) + ")";
      spec += name;
      if (!option.value.empty() && name.starts_with("--")) spec += "=";
      spec += "[" + escaped(option.help, "[]\\") + "]";
      if (!option.value.empty()) spec += (option.value_optional() ? "::" : ":") + value_of(option);
      script += " \\\n" + indent + zsh_quoted(spec);
    }
  }
  for (const OptionUsage& argument : command.arguments)
    script +=
        " \\\n" + indent + zsh_quoted((argument.repeatable ? "*:" : ":") + value_of(argument));
}

}  // namespace

std::string zsh_completion(const CommandUsage& program) {
  std::string script = kZshBegin;
  script += "  _arguments -C";
  add_options(script, program, "    ");
  script +=
      " \\\n    '1: :->command' \\\n    '*:: :->argument'\n"
      "  case $state in\n    command)\n      commands=(\n";
  for (const CommandUsage& command : program.commands)
    script += "        " + zsh_quoted(command.word() + ":" + command.help) + "\n";
  script +=
      "      )\n      _describe -t commands command commands || _files  # rapt FILE\n      ;;\n"
      "    argument)\n      case $words[1] in\n";
  for (const CommandUsage& command : program.commands) {
    script += "        " + command.word() + ")\n          _arguments";
    add_options(script, command, "            ");
    script += "\n          ;;\n";
  }
  // Read by autoload as the body of the function, or by source as its definition.
  script +=
      "      esac\n      ;;\n  esac\n}\n\n"
      "if [[ $funcstack[1] == _rapt ]]; then\n  _rapt \"$@\"\nelse\n  compdef _rapt rapt\nfi\n";
  return script;
}

}  // namespace rapt::cli
