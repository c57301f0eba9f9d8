// rapt man: the manual page of a command, in roff.
#include <fmt/format.h>

#include "arguments.h"
#include "choices.h"
#include "commands.h"
#include "failure.h"
#include "manual_page.h"

namespace rapt::cli {
namespace {

void run_man(CLI::App& root, const std::string& name) {
  const CommandUsage program = usage_of(root);
  if (name.empty() || name == program.name) {
    fmt::print("{}", manual_page(program, program));
    return;
  }
  std::vector<std::string> words;
  for (const CommandUsage& command : program.commands) {
    words.push_back(command.word());
    if (words.back() != name) continue;
    fmt::print("{}", manual_page(command, program));
    return;
  }
  const std::vector<std::string_view> known(words.begin(), words.end());
  throw usage_error("no command '" + name + "'", did_you_mean(name, known));
}

}  // namespace

Command add_man(CLI::App& root) {
  CLI::App* app = root.add_subcommand("man", "the manual page of a command");
  const auto name = std::make_shared<std::string>();
  CLI::Option* command = app->add_option("COMMAND", *name, "its name (default: rapt itself)");
  std::vector<std::string> words;
  for (const CLI::App* other : root.get_subcommands([](CLI::App*) { return true; }))
    words.push_back(other->get_name());
  offer(command, words);
  app->footer(
      "The page is for man(1). Installed, all of them are there as rapt(1), rapt-attend(1) and so "
      "on.\n\n"
      "  rapt man attend | man -l -");
  return {app, [app, &root, name] {
            refuse_unknown(*app);
            refuse_empty(*app);
            run_man(root, *name);
          }};
}

}  // namespace rapt::cli
