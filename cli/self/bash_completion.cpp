// Bash 4 and later, with and without the bash-completion package.
#include <map>

#include "cli/self/completion_scripts.h"

namespace rapt::cli {
namespace {

// Bash splits a word at '=' and ':', so "--dtype=bf" and "lengths:pad" are three words each. The
// script joins them again, and removes from the answers the part that bash keeps.
constexpr const char* kBashBegin =
    R"bash(# Bash completion for rapt, written by `rapt completions bash`.
_rapt() {
  local command='' option options='' words='' files='' value tail kept reply i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; ++i)); do
    if [[ ${COMP_WORDS[i]} != -* ]]; then
      command=${COMP_WORDS[i]}
      break
    fi
  done
  i=$COMP_CWORD
  value=${COMP_WORDS[i]}
  tail=$value
  [[ $tail == [=:]* ]] && tail=''
  while ((i > 1)) && [[ ${COMP_WORDS[i]} == [=:]* || ${COMP_WORDS[i - 1]} == *[=:] ]]; do
    i=$((i - 1))
    value=${COMP_WORDS[i]}$value
  done
  option=${COMP_WORDS[i - 1]}
  if [[ $value == --*=* ]]; then
    option=${value%%=*}
    value=${value#*=}
  fi
  kept=${value%"$tail"}

)bash";

constexpr const char* kEnd = R"bash(
  if [[ $options && ($value == -* || ! $words$files) ]]; then
    words=$options
    files=''
  fi
  while IFS= read -r reply; do
    [[ $reply ]] && COMPREPLY+=("${reply#"$kept"}")
  done < <(
    compgen -W "$words" -- "$value"
    if [[ $files ]]; then
      compgen -f -- "$value"
    elif [[ $words == *:* && $value == *:* ]]; then # lengths:FILE
      compgen -P "${value%%:*}:" -f -- "${value#*:}"
    fi
  )
  if [[ ! $command && ${#COMPREPLY[@]} == 0 ]]; then # rapt FILE
    files=yes
    while IFS= read -r reply; do
      [[ $reply ]] && COMPREPLY+=("${reply#"$kept"}")
    done < <(compgen -f -- "$value")
  fi
  if [[ $files || $value == *:* ]]; then
    compopt -o filenames 2>/dev/null
  elif [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *: ]]; then
    compopt -o nospace 2>/dev/null
  fi
  return 0
}
complete -F _rapt rapt
)bash";

std::string bash_quoted(const std::string& text) { return "'" + text + "'"; }

// The completions of a command where no option expects a value: its options and its arguments.
std::string line_of(const CommandUsage& command, const std::string& pattern) {
  std::vector<std::string> options, words;
  bool files = false;
  for (const OptionUsage& option : command.options)
    options.insert(options.end(), option.names.begin(), option.names.end());
  for (const CommandUsage& inner : command.commands) words.push_back(inner.word());
  for (const OptionUsage& argument : command.arguments) {
    words.insert(words.end(), argument.choices.begin(), argument.choices.end());
    files |= argument.file;
  }
  std::string line = "    " + pattern + ")\n      options=" + bash_quoted(joined(options)) + "\n";
  if (!words.empty()) line += "      words=" + bash_quoted(joined(words)) + "\n";
  if (files) line += "      files=yes\n";
  return line + "      ;;\n";
}

// Options that expect a value, grouped by its completions.
void add_values(std::map<std::string, std::string>& patterns, const CommandUsage& command,
                const std::string& word) {
  for (const OptionUsage& option : command.options) {
    if (option.value.empty()) continue;
    std::string answer;
    if (!option.choices.empty()) answer += "words=" + bash_quoted(joined(option.choices)) + " ";
    if (option.file) answer += "files=yes ";
    // A number cannot be completed; a name that begins with '-' is no option here.
    if (!option.value_optional()) answer += answer.empty() ? "return 0" : "options=''";
    for (const std::string& name : option.names) {
      std::string& pattern = patterns[answer];
      pattern += (pattern.empty() ? "" : " | ") + bash_quoted(word + " " + name);
    }
  }
}

}  // namespace

std::string bash_completion(const CommandUsage& program) {
  std::string script = kBashBegin;
  script += "  case $command in\n" + line_of(program, "''");
  for (const CommandUsage& command : program.commands) script += line_of(command, command.word());
  script += "  esac\n";
  std::map<std::string, std::string> patterns;
  add_values(patterns, program, "");
  for (const CommandUsage& command : program.commands)
    add_values(patterns, command, command.word());
  script += "  case \"$command $option\" in\n";
  for (const auto& [answer, pattern] : patterns) {
    // Each on a line of its own, so that the file can be read.
    script += "    " + pattern + ")\n      " + answer + "\n      ;;\n";
  }
  return script + "  esac\n" + kEnd;
}

}  // namespace rapt::cli
