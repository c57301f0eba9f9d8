// rapt generate: continues a text by a language model in a folder of Hugging Face transformers.
//
// The text goes to standard output as it is written, whole characters only. Several texts come one
// after the other when all are complete, and --json prints one document instead.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "cli/commands.h"
#include "cli/generate/attention_rows.h"
#include "cli/generate/generate_arguments.h"
#include "cli/generate/generate_report.h"
#include "cli/generate/model_folder.h"
#include "cli/generate/stop_words.h"
#include "cli/input/run_folder.h"
#include "cli/input/tensor_input.h"
#include "cli/output/narrate.h"
#include "cli/output/printable.h"
#include "cli/output/tensor_output.h"
#include "cli/output/tensor_text.h"
#include "cli/output/token_label.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "rapt/checkpoint/model_files.h"
#include "rapt/text/stream_decoder.h"

namespace rapt::cli {
namespace {

using SteadyClock = std::chrono::steady_clock;

double seconds_between(SteadyClock::time_point start, SteadyClock::time_point end) {
  return std::chrono::duration<double>(end - start).count();
}

// Prints text of a model. On a terminal, what could control it becomes \xNN.
class TextOutput {
 public:
  explicit TextOutput(bool prints) : prints_(prints) {}

  void print(std::string_view text) {
    if (!prints_ || text.empty()) return;
    const std::string shown = terminal_ ? without_controls(text) : std::string(text);
    std::fwrite(shown.data(), 1, shown.size(), stdout);
    finish_stdout();
    at_line_begin_ = text.back() == '\n';
  }

  void end_line() {
    if (!at_line_begin_) print("\n");
  }

 private:
  static std::string without_controls(std::string_view text) {
    std::string shown;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find_first_of("\n\t", begin), text.size());
      shown += printable(text.substr(begin, end - begin));
      if (end < text.size()) shown += text[end];
      begin = end + 1;
    }
    return shown;
  }

  bool prints_, terminal_ = isatty(STDOUT_FILENO) != 0, at_line_begin_ = true;
};

std::string prompt_text(const GenerateArguments& a) {
  if (a.prompt_file.empty()) return a.prompt;
  MemoryBudget budget(-1);
  return read_text_file("--prompt-file", a.prompt_file, budget);
}

// Without a prompt a text begins behind the token that ends texts, as in training on documents one
// after the other.
std::vector<int64_t> prompt_tokens(const GenerateArguments& a, const text::Tokenizer& tokenizer,
                                   const std::string& prompt,
                                   const std::vector<int64_t>& stop_tokens) {
  const std::string option = a.prompt_file.empty() ? "--prompt" : "--prompt-file";
  if (!prompt.empty()) return encode_prompt(tokenizer, option, prompt);
  if (stop_tokens.empty())
    throw Failure(Exit::data,
                  "there is no prompt, and the model has no token between texts to begin with",
                  "--prompt TEXT gives the beginning");
  return {stop_tokens.front()};
}

void choose_head(const GenerateSettings& settings, const nn::DecodingSizes& sizes,
                 generation::GeneratorOptions& options) {
  const generation::LayerHead chosen{settings.layer.value_or(sizes.layers - 1), settings.head};
  if (chosen.layer >= sizes.layers)
    throw usage_error(fmt::format("--attention-layer: the model has layers 0 to {}, got {}",
                                  sizes.layers - 1, chosen.layer));
  if (chosen.head >= sizes.heads)
    throw usage_error(fmt::format("--attention-head: the model has heads 0 to {}, got {}",
                                  sizes.heads - 1, chosen.head));
  options.attention = chosen;
}

// Generates all texts and prints the only one as it grows. Ctrl-C ends with what is printed.
void generate_texts(generation::Generator& generator, const text::StreamDecoder& decoder,
                    TextOutput& output, AttentionRows* attention, GenerateReport& report) {
  std::vector<text::StreamDecoder> decoders(report.texts.size(), decoder);
  std::vector<StopWords> stops(report.texts.size(), StopWords(report.stop));
  const SteadyClock::time_point start = SteadyClock::now();
  SteadyClock::time_point first = start;
  for (bool later = false; generator.next(); later = true) {
    if (!later) first = SteadyClock::now();
    for (size_t i = 0; i < report.texts.size(); ++i) {
      const int64_t token = generator.token(static_cast<int64_t>(i));
      if (token == generation::kNoToken) continue;
      report.later_tokens += later;
      if (attention) attention->add(generator);
      const std::string characters = stops[i].next(decoders[i].next(token));
      report.texts[i].text += characters;
      output.print(characters);
      if (stops[i].found()) generator.end(static_cast<int64_t>(i));
    }
  }
  report.prompt_seconds = seconds_between(start, first);
  report.seconds = seconds_between(first, SteadyClock::now());
  for (size_t i = 0; i < report.texts.size(); ++i) {
    std::string rest = stops[i].next(decoders[i].finish());
    rest += stops[i].finish();
    GeneratedText& text = report.texts[i];
    text.text += rest;
    output.print(rest);
    const std::span<const int64_t> tokens = generator.text(static_cast<int64_t>(i));
    text.tokens.assign(tokens.begin(), tokens.end());
    text.finish = generator.finish(static_cast<int64_t>(i));
  }
}

void print_texts(const GenerateReport& report) {
  TextOutput output(true);
  for (size_t i = 0; i < report.texts.size(); ++i) {
    output.print(fmt::format("{}== {} of {} ==\n", i ? "\n" : "", i + 1, report.texts.size()));
    output.print(report.prompt);
    output.print(report.texts[i].text);
    output.end_line();
  }
}

void write_attention(AttentionRows& attention, const generation::LayerHead& head,
                     const text::Tokenizer& tokenizer, const std::vector<int64_t>& prompt,
                     const GenerateReport& report) {
  std::vector<std::string> labels;
  for (const std::vector<int64_t>* tokens : {&prompt, &report.texts[0].tokens})
    for (const int64_t token : *tokens) labels.push_back(token_label(tokenizer.token_bytes(token)));
  attention.write(head, labels, std::ssize(prompt));
}

void run_generate(const GenerateArguments& a) {
  GenerateSettings settings = generate_settings(a);
  settings.context.cancel = &interruption();
  std::optional<AttentionRows> attention;
  if (!a.attention.empty())
    attention.emplace(a.attention, a.force ? Overwrite::yes : Overwrite::no);

  const std::string folder = model_folder_of(a.folder);
  const text::Tokenizer tokenizer = read_folder_tokenizer(folder);
  const text::StreamDecoder decoder(tokenizer);
  generation::GeneratorOptions options = settings.options;
  options.stop_tokens = checkpoint::load_stop_tokens(folder);
  GenerateReport report{.prompt = prompt_text(a), .stop = a.stop};
  const std::vector<int64_t> prompt =
      prompt_tokens(a, tokenizer, report.prompt, options.stop_tokens);
  if (settings.cache_as_stored) options.cache_dtype = model::load_decoder_info(folder).dtype;
  check_generation_memory(folder, settings.dtype, options, std::ssize(prompt));
  const GenerationModel model = read_folder_model(folder, tokenizer, settings.dtype);
  options.vocabulary = tokenizer.vocabulary();
  if (attention) choose_head(settings, model.sizes, options);
  stop_if_interrupted();

  generation::Generator generator =
      model.mapped ? generation::Generator(*model.mapped, options, prompt, settings.context)
                   : generation::Generator(*model.converted, options, prompt, settings.context);
  report.prompt_tokens = std::ssize(prompt);
  report.texts.resize(static_cast<size_t>(options.sequences));
  TextOutput output(!a.json && options.sequences == 1);
  output.print(report.prompt);
  try {
    generate_texts(generator, decoder, output, attention ? &*attention : nullptr, report);
  } catch (const Error& error) {
    output.end_line();
    if (error.code() != ErrorCode::cancelled) throw;
    throw Failure(Exit::interrupted, "interrupted");
  }
  output.end_line();
  if (attention) write_attention(*attention, *options.attention, tokenizer, prompt, report);
  if (a.json) return print_json(generate_document(report, model, options, a.attention));
  if (options.sequences > 1) print_texts(report);
  narrate(generate_summary(report));
}

}  // namespace

Command add_generate(CLI::App& root) {
  CLI::App* app = root.add_subcommand("generate", "continue a text by a language model");
  const auto a = arguments_of<GenerateArguments>(*app);
  add_generate_options(*app, *a);
  app->footer(
      "Models are folders of Hugging Face transformers: GPT-2, Llama, Mistral, Qwen2, Qwen3 and\n"
      "Gemma 2; --dtype bf16 computes GPT-2, Llama and Qwen3 alone. Without a prompt a text\n"
      "begins behind the token that ends texts (eos_token_id), where the model has one.\n"
      "--top-k, --top-p and --min-p apply in this order. The same seed gives the same text, for\n"
      "any number of threads; the speed is told on standard error.\n\n"
      "  rapt generate model --prompt \"The cat sat\" --length 40 --temperature 0\n"
      "  rapt generate model --prompt-file start.txt --top-p 0.9 --num 3 --seed 7\n"
      "  rapt generate model --prompt \"The cat sat\" --length 12 --attention looked.svg");
  return {app, [a] { generate_settings(*a); }, [a] { run_generate(*a); }};
}

}  // namespace rapt::cli
