// rapt completions: the completion script of a shell for this command line.
#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/process/failure.h"
#include "cli/self/completion_scripts.h"

namespace rapt::cli {
namespace {

struct Shell {
  const char* name;
  std::string (*script)(const CommandUsage&);
};
constexpr Shell kShells[] = {
    {"bash", bash_completion}, {"zsh", zsh_completion}, {"fish", fish_completion}};

const Shell& shell_named(const std::string& name) {
  std::vector<std::string_view> known;
  for (const Shell& shell : kShells) {
    known.push_back(shell.name);
    if (name == shell.name) return shell;
  }
  if (name.empty()) throw usage_error("expected a shell: bash, zsh or fish");
  throw usage_error("expected bash, zsh or fish, got '" + name + "'", did_you_mean(name, known));
}

}  // namespace

Command add_completions(CLI::App& root) {
  CLI::App* app = root.add_subcommand("completions", "completions for a shell");
  const auto name = arguments_of<std::string>(*app);
  std::vector<std::string> words;
  for (const Shell& shell : kShells) words.push_back(shell.name);
  offer(app->add_option("SHELL", *name, "bash, zsh or fish"), words);
  app->footer(
      "Installed with rapt, all three are where their shells look. To try them without:\n\n"
      "  rapt completions bash > ~/.local/share/bash-completion/completions/rapt\n"
      "  rapt completions zsh > ~/.zfunc/_rapt\n"
      "  rapt completions fish > ~/.config/fish/completions/rapt.fish");
  return {app, [name] { shell_named(*name); },
          [&root, name] { fmt::print("{}", shell_named(*name).script(usage_of(root))); }};
}

}  // namespace rapt::cli
