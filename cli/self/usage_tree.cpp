#include "cli/self/usage_tree.h"

#include <algorithm>

#include "cli/input/choices.h"

namespace rapt::cli {
namespace {

// Values with these names are files in all commands; M may also be numbers, TEXT a sentence.
constexpr std::string_view kFileValues[] = {"F", "[F]", "M", "FILE", "FILES", "TEXT", "DIR"};

// Finds the default in the help: "blues (default), greys", "(default: the query's)", "(default
// 16)".
std::string fallback_of(const std::string& help) {
  const std::string opening = "(default";
  const size_t at = help.find(opening);
  if (at == std::string::npos) return "";
  const size_t next = at + opening.size();
  if (at > 0 && next < help.size() && (help[next] == ')' || help[next] == ';')) {
    const size_t end = help.find_last_not_of(' ', at - 1) + 1;
    const size_t begin = help.find_last_of(" ,:", end - 1) + 1;
    return help.substr(begin, end - begin);
  }
  const size_t begin = help.find_first_not_of(" :", next);
  int depth = 1;
  for (size_t end = begin; end < help.size(); ++end) {
    depth += help[end] == '(';
    depth -= help[end] == ')';
    if (depth == 0) return help.substr(begin, end - begin);
  }
  return "";
}

OptionUsage usage_of(CLI::Option& option) {
  OptionUsage usage;
  usage.help = option.get_description();
  usage.group = option.get_group();
  usage.choices = offered(option);
  usage.fallback = fallback_of(usage.help);
  usage.repeatable = option.get_items_expected_max() > 1 ||
                     option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  if (option.get_positional()) {
    usage.names = {option.get_name(true)};
    usage.value = usage.names.front();
  } else {
    for (const std::string& name : option.get_lnames()) usage.names.push_back("--" + name);
    for (const std::string& name : option.get_snames()) usage.names.push_back("-" + name);
    if (option.get_items_expected_max() > 0) usage.value = option.get_type_name();
  }
  usage.file = std::find(std::begin(kFileValues), std::end(kFileValues), usage.value) !=
               std::end(kFileValues);
  return usage;
}

CommandUsage usage_of(CLI::App& app, const std::string& parent) {
  CommandUsage usage;
  usage.name = parent.empty() ? app.get_name() : parent + " " + app.get_name();
  usage.help = app.get_description();
  usage.notes = app.get_footer();
  for (CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;
    (option->get_positional() ? usage.arguments : usage.options).push_back(usage_of(*option));
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (!command->get_group().empty()) usage.commands.push_back(usage_of(*command, usage.name));
  }
  return usage;
}

}  // namespace

std::string CommandUsage::word() const { return name.substr(name.rfind(' ') + 1); }

CommandUsage usage_of(CLI::App& app) {
  std::string parents;
  for (const CLI::App* above = app.get_parent(); above; above = above->get_parent())
    parents = above->get_name() + (parents.empty() ? "" : " " + parents);
  return usage_of(app, parents);
}

std::string title_of(const OptionUsage& option) {
  std::string title;
  for (const std::string& name : option.names) title += (title.empty() ? "" : ", ") + name;
  // An argument's name is the name of its value.
  if (!option.value.empty() && option.names.front() != option.value) title += " " + option.value;
  return title;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::vector<std::string> groups_of(const std::vector<OptionUsage>& options) {
  std::vector<std::string> groups;
  for (const OptionUsage& option : options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end())
      groups.push_back(option.group);
  }
  return groups;
}

}  // namespace rapt::cli
