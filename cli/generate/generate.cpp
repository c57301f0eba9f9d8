// rapt generate: continues a text by a language model in a folder of Hugging Face transformers.
//
// The text goes to standard output as it is written, whole characters only. Prompts are continued
// one after the other. Several texts of a prompt are printed when all are complete, and --json
// prints one document instead.
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
#include "cli/generate/prompts.h"
#include "cli/generate/stop_words.h"
#include "cli/input/run_folder.h"
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

// Generates all texts of a prompt and prints the only one as it grows. Ctrl-C ends with what is
// printed.
void generate_texts(generation::Generator& generator, const text::StreamDecoder& decoder,
                    TextOutput& output, AttentionRows* attention, GenerateReport& report,
                    std::vector<GeneratedText>& texts) {
  std::vector<text::StreamDecoder> decoders(texts.size(), decoder);
  std::vector<StopWords> stops(texts.size(), StopWords(report.stop));
  const SteadyClock::time_point start = SteadyClock::now();
  SteadyClock::time_point first = start;
  for (bool later = false; generator.next(); later = true) {
    if (!later) first = SteadyClock::now();
    for (size_t i = 0; i < texts.size(); ++i) {
      const int64_t token = generator.token(static_cast<int64_t>(i));
      if (token == generation::kNoToken) continue;
      report.later_tokens += later;
      if (attention) attention->add(generator);
      const std::string characters = stops[i].next(decoders[i].next(token));
      texts[i].text += characters;
      output.print(characters);
      if (stops[i].found()) generator.end(static_cast<int64_t>(i));
    }
  }
  report.prompt_seconds += seconds_between(start, first);
  report.seconds += seconds_between(first, SteadyClock::now());
  for (size_t i = 0; i < texts.size(); ++i) {
    std::string rest = stops[i].next(decoders[i].finish());
    rest += stops[i].finish();
    GeneratedText& text = texts[i];
    text.text += rest;
    output.print(rest);
    const std::span<const int64_t> tokens = generator.text(static_cast<int64_t>(i));
    text.tokens.assign(tokens.begin(), tokens.end());
    text.finish = generator.finish(static_cast<int64_t>(i));
  }
}

// The line above text `number` of `count`, if there are several.
void print_heading(TextOutput& output, size_t number, size_t count) {
  if (count > 1)
    output.print(fmt::format("{}== {} of {} ==\n", number > 1 ? "\n" : "", number, count));
}

// Texts of a prompt, of which the first is text `number` of `count`.
void print_texts(const ContinuedPrompt& continued, size_t number, size_t count) {
  TextOutput output(true);
  for (const GeneratedText& text : continued.texts) {
    print_heading(output, number++, count);
    output.print(continued.prompt.text);
    output.print(text.text);
    output.end_line();
  }
}

// The model and the settings with which every prompt is continued.
struct GenerationSetup {
  const model::DecoderModel& model;
  const generation::GeneratorOptions& options;
  const Context& context;
  const text::StreamDecoder& decoder;
  AttentionRows* attention;  // null: not requested
  bool prints;
};

// Continues prompt `at` of the report. A generator of its own keeps it apart from the others.
void continue_prompt(const GenerationSetup& setup, size_t at, GenerateReport& report) {
  ContinuedPrompt& continued = report.prompts[at];
  const auto texts = static_cast<size_t>(setup.options.sequences);
  const size_t number = at * texts + 1, count = report.prompts.size() * texts;
  generation::Generator generator(setup.model, setup.options, continued.tokens, setup.context);
  continued.texts.resize(texts);
  TextOutput output(setup.prints && texts == 1);
  print_heading(output, number, count);
  output.print(continued.prompt.text);
  try {
    generate_texts(generator, setup.decoder, output, setup.attention, report, continued.texts);
  } catch (const Error& error) {
    output.end_line();
    if (error.code() != ErrorCode::cancelled) throw;
    throw Failure(Exit::interrupted, "interrupted");
  }
  output.end_line();
  if (setup.prints && texts > 1) print_texts(continued, number, count);
}

void write_attention(AttentionRows& attention, const generation::LayerHead& head,
                     const text::Tokenizer& tokenizer, const ContinuedPrompt& continued) {
  std::vector<std::string> labels;
  for (const std::vector<int64_t>* tokens : {&continued.tokens, &continued.texts[0].tokens})
    for (const int64_t token : *tokens) labels.push_back(token_label(tokenizer.token_bytes(token)));
  attention.write(head, labels, std::ssize(continued.tokens));
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
  GenerateReport report{.stop = a.stop};
  int64_t longest = 0;
  for (Prompt& prompt : read_prompts(a)) {
    std::vector<int64_t> tokens = prompt_tokens(prompt, tokenizer, options.stop_tokens);
    longest = std::max(longest, std::ssize(tokens));
    report.prompts.push_back({.prompt = std::move(prompt), .tokens = std::move(tokens)});
  }
  if (attention && report.prompts.size() > 1)
    throw usage_error("--attention draws one text; the file has several lines");
  if (settings.dtype == DType::bf16) options.cache_dtype = DType::bf16;
  if (settings.cache_as_stored) options.cache_dtype = model::load_decoder_info(folder).dtype;
  check_generation_memory(folder, settings.dtype, options, longest);
  const model::DecoderModel model = read_folder_model(folder, tokenizer, settings.dtype);
  for (const ContinuedPrompt& continued : report.prompts)
    check_prompt_length(continued.prompt, std::ssize(continued.tokens), model.spec.context);
  options.vocabulary = tokenizer.vocabulary();
  if (attention) choose_head(settings, model.sizes(), options);
  stop_if_interrupted();

  const GenerationSetup setup{.model = model,
                              .options = options,
                              .context = settings.context,
                              .decoder = decoder,
                              .attention = attention ? &*attention : nullptr,
                              .prints = !a.json};
  for (size_t at = 0; at < report.prompts.size(); ++at) continue_prompt(setup, at, report);
  if (attention) write_attention(*attention, *options.attention, tokenizer, report.prompts[0]);
  if (a.json) return print_json(generate_document(report, model, options, a.attention));
  narrate(generate_summary(report));
}

}  // namespace

Command add_generate(CLI::App& root) {
  CLI::App* app = root.add_subcommand("generate", "continue a text by a language model");
  const auto a = arguments_of<GenerateArguments>(*app);
  add_generate_options(*app, *a);
  app->footer(
      "Models are folders of Hugging Face transformers: GPT-2, Llama, Mistral, Qwen2, Qwen3 and\n"
      "Gemma 2. Without a prompt a text begins behind the token that ends texts (eos_token_id),\n"
      "where the model has one.\n"
      "--top-k, --top-p and --min-p apply in this order. The same seed gives the same text, for\n"
      "any number of threads; the speed is told on standard error.\n\n"
      "  rapt generate model --prompt \"The cat sat\" --length 40 --temperature 0\n"
      "  rapt generate model --prompt-file start.txt --top-p 0.9 --num 3 --seed 7\n"
      "  rapt generate model --prompt \"The cat sat\" --prompt @lines.txt --json\n"
      "  rapt generate model --prompt \"The cat sat\" --length 12 --attention looked.svg");
  return {app, [a] { generate_settings(*a); }, [a] { run_generate(*a); }};
}

}  // namespace rapt::cli
