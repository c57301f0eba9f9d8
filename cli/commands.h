#pragma once
// The subcommands. Each file NAME.cpp defines one: its options, and what runs when it is called.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

namespace rapt::cli {

// A subcommand, ready to run once its options are parsed. `run` may throw anything.
struct Command {
  CLI::App* app;
  std::function<void()> run;
};

Command add_attend(CLI::App& root);
Command add_explain(CLI::App& root);
Command add_mask(CLI::App& root);
Command add_check(CLI::App& root);
Command add_info(CLI::App& root);
Command add_convert(CLI::App& root);
Command add_bench(CLI::App& root);
Command add_cpu(CLI::App& root);
Command add_list(CLI::App& root);
Command add_man(CLI::App& root);
Command add_completions(CLI::App& root);

}  // namespace rapt::cli
