#include "cli/command_line.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "cli/input/arguments.h"
#include "cli/input/bracketed_words.h"
#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"
#include "cli/self/json_usage.h"
#include "rapt/version.h"

namespace rapt::cli {
namespace {

// Reserved commands that do not exist yet.
constexpr std::string_view kUnbuiltCommands[] = {"view"};

constexpr const char* kEnvironment =
    "Environment:\n"
    "  RAPT_ISA=scalar|avx2|avx512|amx   the highest instruction set that may be used\n"
    "  RAPT_THREADS=N                    threads without --threads\n"
    "  RAPT_BF16=dot|fma                 how bf16 is multiplied\n"
    "                                    (default: what is faster)\n"
    "  NO_COLOR                          no colour in the terminal";

[[noreturn]] void refuse_command(const std::string& name, const std::vector<Command>& commands) {
  for (const std::string_view unbuilt : kUnbuiltCommands) {
    if (name == unbuilt) throw not_built("'rapt " + name + "'");
  }
  if (name == "train" || name == "generate" || name == "model" ||
      name == "tokenize")  // else it is among the commands
    throw usage_error("'rapt " + name + "' needs layers and tokenizers, which this build lacks",
                      "build rapt with RAPT_BUILD_NN=ON and RAPT_BUILD_TEXT=ON");
  std::vector<std::string> names;
  for (const Command& command : commands) names.push_back(command.app->get_name());
  const std::vector<std::string_view> known(names.begin(), names.end());
  if (name.find_first_of("./") == std::string::npos)
    throw usage_error("unknown command '" + name + "'", did_you_mean(name, known));
  // The word may be a file, because 'rapt FILE' means 'rapt info FILE'.
  std::error_code ignored;
  const bool folder = std::filesystem::is_directory(name, ignored);
  throw usage_error(
      "'" + name + "' is neither a command nor a file" + (folder ? " but a folder" : ""),
      folder ? "'rapt info FILE...' takes files" : file_meant(name));
}

// Whether `text` is a file, as in `rapt FILE`, which means `rapt info FILE`.
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

}  // namespace

CommandLine::CommandLine()
    : root_("Exact scaled dot-product attention: fast, in O(n) memory, open to inspection.",
            "rapt") {
  root_.set_version_flag("--version", rapt::build_info(), "version, commit and compiler");
  root_.footer(kEnvironment);
  for (const auto add :
       {add_attend, add_explain, add_mask, add_check, add_compare, add_bench, add_plot,
#ifdef RAPT_WITH_LANGUAGE_MODELS
        add_train, add_generate, add_model, add_tokenize,
#endif
        add_info, add_convert, add_cpu, add_list, add_man, add_completions}) {
    commands_.push_back(add(root_));
  }
  add_json_usage(root_);
  // One command: in "rapt man bench" the second word is no command.
  root_.require_subcommand(0, 1);
  // refuse_unknown() rejects unknown words and suggests the nearest one.
  root_.allow_extras();
  take_words_whole(root_);
  for (const Command& command : commands_) {
    command.app->allow_extras();
    take_words_whole(*command.app);
  }
}

const Command* CommandLine::read(std::vector<std::string> words) {
  command_name_ = "rapt";
  if (!words.empty() && names_a_file(words.front(), commands_)) words.insert(words.begin(), "info");
  std::reverse(words.begin(), words.end());  // as CLI11 wants them
  for (std::string& word : words) word = marked_word(std::move(word));
  const auto read_command = [&]() -> const Command* {
    for (const Command& command : commands_) {
      if (!command.app->parsed()) continue;
      command_name_ = "rapt " + command.app->get_name();
      return &command;
    }
    return nullptr;
  };
  try {
    root_.parse(words);
  } catch (...) {
    read_command();
    throw;
  }
  if (const Command* command = read_command()) {
    refuse_unknown(*command->app);
    refuse_empty(*command->app);
    return command;
  }
  const std::vector<std::string> extras = root_.remaining();
  if (!extras.empty() && extras.front().rfind('-', 0) != 0)
    refuse_command(unmarked_word(extras.front()), commands_);
  refuse_unknown(root_);
  return nullptr;
}

}  // namespace rapt::cli
