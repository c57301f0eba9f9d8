// rapt: the command line. Chooses the subcommand and turns what it throws into an exit code.
//
// Results go to stdout, narration and errors to stderr.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "arguments.h"
#include "commands.h"
#include "failure.h"
#include "fatal_signals.h"
#include "interrupt.h"
#include "json_usage.h"
#include "rapt/version.h"
#include "standard_streams.h"
#include "tensor_input.h"
#include "tensor_output.h"

namespace {

using namespace rapt::cli;

// Of the contract, but not here yet.
constexpr std::string_view kUnbuiltCommands[] = {"compare", "view",  "plot",    "tokenize",
                                                 "model",   "train", "generate"};

constexpr const char* kEnvironment =
    "Environment:\n"
    "  RAPT_ISA=scalar|avx2|avx512   the highest instruction set that may be used\n"
    "  RAPT_THREADS=N                threads without --threads\n"
    "  RAPT_BF16=dot|fma             how bf16 is multiplied (default: what is faster)\n"
    "  NO_COLOR                      no colour in the terminal";

[[noreturn]] void refuse_command(const std::string& name, const std::vector<Command>& commands) {
  for (const std::string_view unbuilt : kUnbuiltCommands) {
    if (name == unbuilt) throw not_built("'rapt " + name + "'");
  }
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (name.find_first_of("./") == std::string::npos)
    throw usage_error("unknown command '" + name + "'", did_you_mean(name, known));
  // Perhaps a file was meant: 'rapt FILE' is 'rapt info FILE'.
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(name, ignored);
  throw usage_error(
      "'" + name + "' is neither a command nor a file" + (folder ? " but a folder" : ""),
      folder ? "'rapt info FILE...' takes files" : file_meant(name));
}

// Whether `rapt FILE` is meant, which is `rapt info FILE`.
bool names_a_file(const std::string& text, const std::vector<Command>& commands) {
  for (const Command& command : commands)
    if (text == command.app->get_name()) return false;
  if (text == "-") return true;
  const std::string path = address_of(text).path;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_directory(path, ignored))
    return true;
  for (const std::string_view ending : {".npy", ".npz", ".safetensors"})
    if (path.size() > ending.size() && std::string_view(path).ends_with(ending)) return true;
  return false;
}

int run(int argc, char** argv, std::string& command_name) {
  CLI::App root("Exact scaled dot-product attention: fast, in O(n) memory, open to inspection.",
                "rapt");
  root.set_version_flag("--version", rapt::build_info(), "version, commit and compiler");
  root.footer(kEnvironment);
  const std::vector<Command> commands = {
      add_attend(root), add_explain(root), add_mask(root),        add_check(root),
      add_bench(root),  add_info(root),    add_convert(root),     add_cpu(root),
      add_list(root),   add_man(root),     add_completions(root),
  };
  add_json_usage(root);
  // One command: in "rapt man bench" the second word is no command.
  root.require_subcommand(0, 1);
  // What is not understood is refused by refuse_unknown(), which knows what was meant.
  root.allow_extras();
  for (const Command& command : commands) command.app->allow_extras();

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (!arguments.empty() && names_a_file(arguments.front(), commands))
    arguments.insert(arguments.begin(), "info");
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them

  try {
    root.parse(arguments);
  } catch (const CLI::Success& asked) {  // --help, --version
    root.exit(asked);
    finish_stdout();
    return static_cast<int>(Exit::ok);
  } catch (...) {
    for (const Command& command : commands) {
      if (command.app->parsed()) command_name = "rapt " + command.app->get_name();
    }
    throw;
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    command_name = "rapt " + command.app->get_name();
    clean_up_on_fatal_signals(command_name);
    command.run();
    finish_stdout();
    return static_cast<int>(Exit::ok);
  }
  const std::vector<std::string> extras = root.remaining();
  if (!extras.empty() && extras.front().rfind('-', 0) != 0)
    refuse_command(extras.front(), commands);
  refuse_unknown(root);
  std::fputs(root.help().c_str(), stderr);
  return static_cast<int>(Exit::usage);
}

}  // namespace

int main(int argc, char** argv) {
  reserve_standard_streams();
  interruption();  // from here on Ctrl-C leaves no half file
  std::string command_name = "rapt";
  try {
    return run(argc, argv, command_name);
  } catch (...) {
    return static_cast<int>(report_failure(command_name));
  }
}
