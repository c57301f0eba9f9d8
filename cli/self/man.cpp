// rapt man: the manual page of a command, in roff.
#include <fmt/format.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/process/failure.h"
#include "cli/self/manual_page.h"

namespace rapt::cli {
namespace {

// Checks the name of a command; empty: rapt itself.
void check_name(const CLI::App& root, const std::string& name) {
  if (name.empty() || name == root.get_name()) return;
  std::vector<std::string> words;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back(command->get_name());
  if (std::find(words.begin(), words.end(), name) != words.end()) return;
  const std::vector<std::string_view> known(words.begin(), words.end());
  throw usage_error("no command '" + name + "'", did_you_mean(name, known));
}

void run_man(CLI::App& root, const std::string& name) {
  const CommandUsage program = usage_of(root);
  const auto command =
      std::find_if(program.commands.begin(), program.commands.end(),
                   [&](const CommandUsage& usage) { return usage.word() == name; });
  const bool itself = command == program.commands.end();
  fmt::print("{}", manual_page(itself ? program : *command, program));
}

}  // namespace

Command add_man(CLI::App& root) {
  CLI::App* app = root.add_subcommand("man", "the manual page of a command");
  const auto name = arguments_of<std::string>(*app);
  CLI::Option* command = app->add_option("COMMAND", *name, "its name (default: rapt itself)");
  std::vector<std::string> words;
  for (const CLI::App* other : root.get_subcommands([](CLI::App*) { return true; }))
    words.push_back(other->get_name());
  offer(command, words);
  app->footer(
      "The page is for man(1). Installed, all of them are there as rapt(1), rapt-attend(1) and so "
      "on.\n\n"
      "  rapt man attend | man -l -");
  return {app, [&root, name] { check_name(root, *name); }, [&root, name] { run_man(root, *name); }};
}

}  // namespace rapt::cli
