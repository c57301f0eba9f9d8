#pragma once
// The subcommands. Each file NAME.cpp defines one: its options, and what runs when it is called.
#include <CLI/CLI.hpp>
#include <functional>
#include <memory>

namespace rapt::cli {

// A subcommand, ready once its options are parsed. Both functions may throw anything.
struct Command {
  CLI::App* app;
  // Rejects errors in the arguments themselves; CommandLine::read() has rejected unknown options
  // and empty values. Opens no file, prints nothing and computes nothing, so that a typing error is
  // reported before any long reading.
  std::function<void()> check;
  std::function<void()> run;  // after check()
};

// The values of a command's options; each parse starts from the defaults.
template <class Arguments>
std::shared_ptr<Arguments> arguments_of(CLI::App& command) {
  auto arguments = std::make_shared<Arguments>();
  command.preparse_callback([arguments](size_t) { *arguments = Arguments(); });
  return arguments;
}

Command add_attend(CLI::App& root);
Command add_explain(CLI::App& root);
Command add_mask(CLI::App& root);
Command add_check(CLI::App& root);
Command add_info(CLI::App& root);
Command add_convert(CLI::App& root);
Command add_bench(CLI::App& root);
Command add_compare(CLI::App& root);
Command add_plot(CLI::App& root);
Command add_train(CLI::App& root);     // only in a build with layers and tokenizers
Command add_generate(CLI::App& root);  // only in a build with layers and tokenizers
Command add_model(CLI::App& root);     // only in a build with layers and tokenizers
Command add_tokenize(CLI::App& root);  // only in a build with layers and tokenizers
Command add_cpu(CLI::App& root);
Command add_list(CLI::App& root);
Command add_man(CLI::App& root);
Command add_completions(CLI::App& root);

}  // namespace rapt::cli
