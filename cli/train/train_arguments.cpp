// The options of `rapt train`, and the checks of those of training on a text.
#include "cli/train/train_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/input/arguments.h"
#include "cli/input/choices.h"
#include "cli/process/failure.h"
#include "cli/train/built_in_texts.h"
#include "cli/train/examples/train_examples.h"
#include "rapt/text/learn.h"

namespace rapt::cli {
namespace {

constexpr double kDefaultBudget = 180;  // seconds
constexpr double kMostBudget = 30 * 86400;
constexpr int64_t kDefaultSampleLength = 120;
constexpr const char* kDefaultFolder = "model";
// Sizes far beyond what a CPU trains: a typing error is told before memory is counted.
constexpr int64_t kMostLayers = 1000, kMostHeads = 1024, kMostFeatures = 65536;
constexpr int64_t kMostBlock = 1 << 20, kMostBatch = 1 << 16, kMostVocabularySize = 1'000'000;
constexpr int64_t kMostUpdates = 1'000'000'000;

// "3m", "90s", "1.5h"; a number alone is seconds.
double parse_budget(const std::string& text) {
  if (text.empty()) return kDefaultBudget;
  const std::pair<char, double> units[] = {{'s', 1}, {'m', 60}, {'h', 3600}};
  const auto* unit = std::ranges::find(units, text.back(), &std::pair<char, double>::first);
  const bool has_unit = unit != std::end(units);
  const double value = parse_real("--budget", has_unit ? text.substr(0, text.size() - 1) : text);
  const double seconds = value * (has_unit ? unit->second : 1);
  if (!(seconds > 0 && seconds <= kMostBudget))
    throw usage_error("--budget: expected a time above 0, at most 720h, such as 3m, got " + text);
  return seconds;
}

std::optional<int64_t> size_option(const std::string& option, const std::string& text,
                                   int64_t most) {
  if (text.empty()) return std::nullopt;
  return integer_within(option, text, 1, 1, most);
}

// The index of a word in the list of those that an option takes.
size_t word_index(const std::string& option, const std::string& word,
                  std::span<const std::string_view> words) {
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  throw usage_error(fmt::format("{}: expected {}, got '{}'", option, fmt::join(words, ", "), word),
                    did_you_mean(word, words));
}

void read_tokenizer_choice(const TrainArguments& a, TextRunSettings& settings) {
  constexpr std::string_view kWords[] = {"characters", "bpe"};
  if (!a.tokenizer.empty())
    settings.tokenizer =
        static_cast<training::TokenizerKind>(word_index("--tokenizer", a.tokenizer, kWords));
  if (a.vocabulary.empty()) return;
  if (settings.tokenizer == training::TokenizerKind::characters)
    throw usage_error("--vocab is for --tokenizer bpe; characters are as many as the text has");
  settings.tokenizer = training::TokenizerKind::byte_level_bpe;
  settings.vocabulary =
      integer_within("--vocab", a.vocabulary, 0, text::kByteTokens, kMostVocabularySize);
}

void read_rates(const TrainArguments& a, TextRunSettings& settings) {
  if (!a.learning_rate.empty()) {
    settings.learning_rate = parse_real("--learning-rate", a.learning_rate);
    if (*settings.learning_rate <= 0)
      throw usage_error("--learning-rate: expected more than 0, got " + a.learning_rate);
  }
  if (!a.dropout.empty()) settings.dropout = parse_real("--dropout", a.dropout);
  if (!(settings.dropout >= 0 && settings.dropout < 1))
    throw usage_error("--dropout: expected at least 0, below 1, got " + a.dropout);
}

void read_model_options(const TrainArguments& a, TextRunSettings& settings) {
  constexpr std::string_view kLayouts[] = {"gpt2", "llama", "qwen3"};
  constexpr std::string_view kTypes[] = {"f32", "bf16"};
  if (!a.layout.empty())
    settings.layout =
        static_cast<nn::LanguageModelLayout>(word_index("--layout", a.layout, kLayouts));
  if (!a.dtype.empty() && word_index("--dtype", a.dtype, kTypes) == 1) settings.dtype = DType::bf16;
  settings.layers = size_option("--layers", a.layers, kMostLayers);
  settings.heads = size_option("--heads", a.heads, kMostHeads);
  settings.features = size_option("--features", a.features, kMostFeatures);
  settings.block = size_option("--block", a.block, kMostBlock);
  settings.batch = size_option("--batch", a.batch, kMostBatch);
  if (settings.features && settings.heads && *settings.features % *settings.heads != 0)
    throw usage_error(fmt::format("--features: expected a multiple of the {} heads, got {}",
                                  *settings.heads, *settings.features));
}

// A run that is resumed has its settings already.
void refuse_settings_of_resumed(const TrainArguments& a) {
  const std::pair<const char*, const std::string*> fixed[] = {
      {"--output", &a.output},     {"--budget", &a.budget},
      {"--steps", &a.steps},       {"--tokenizer", &a.tokenizer},
      {"--vocab", &a.vocabulary},  {"--layout", &a.layout},
      {"--layers", &a.layers},     {"--heads", &a.heads},
      {"--features", &a.features}, {"--block", &a.block},
      {"--batch", &a.batch},       {"--dropout", &a.dropout},
      {"--dtype", &a.dtype},       {"--learning-rate", &a.learning_rate},
      {"--seed", &a.seed},         {"--eval-every", &a.evaluate_every}};
  for (const auto& [option, value] : fixed)
    if (!value->empty())
      throw usage_error(std::string("--resume goes on with the settings of the run; leave out ") +
                        option);
}

void check_texts(const TrainArguments& a) {
  if (a.files.empty() && a.text.empty())
    throw usage_error("expected a text to train on",
                      "'rapt train FILE', 'rapt train --text poems' or 'rapt train --example "
                      "copy'");
  if (!a.files.empty() && !a.text.empty())
    throw usage_error("FILE and --text: expected one of them");
  if (!a.text.empty()) built_in_text(a.text);
}

void add_size_options(CLI::App& app, TrainArguments& a) {
  const auto option = [&](const char* name, std::string& value, const char* type,
                          const std::string& help) {
    return app.add_option(name, value, help)->type_name(type)->group("Model");
  };
  offer(option("--tokenizer", a.tokenizer, "KIND", "what a token is: characters or bpe"),
        {"characters", "bpe"});
  option("--vocab", a.vocabulary, "N", "tokens of bpe, 256 or more");
  offer(option("--layout", a.layout, "NAME", "gpt2, llama or qwen3 (default qwen3)"),
        {"gpt2", "llama", "qwen3"});
  option("--layers", a.layers, "N", "blocks of attention and network");
  option("--heads", a.heads, "N", "heads of each attention");
  option("--features", a.features, "N", "numbers for each token, a multiple of the heads");
  option("--block", a.block, "N", "tokens of a window, and positions of the model");
  option("--batch", a.batch, "N", "windows of an update");
  option("--dropout", a.dropout, "P", "of attention weights; of gpt2 all over (default 0)");
  offer(option("--dtype", a.dtype, "TYPE", "of the parameters: f32 (default) or bf16"),
        {"f32", "bf16"});
  option("--learning-rate", a.learning_rate, "R", "the largest of warm-up and cosine");
}

void add_report_options(CLI::App& app, TrainArguments& a) {
  const auto option = [&](const char* name, std::string& value, const std::string& help) {
    app.add_option(name, value, help)->type_name("N")->group("Report");
  };
  option("--eval-every", a.evaluate_every, "updates between evaluations (default: 8 in a run)");
  option("--sample-every", a.sample_every,
         "print a sample after every Nth evaluation (default 1); 0: none");
  option("--sample-length", a.sample_length,
         fmt::format("tokens of a sample (default {})", kDefaultSampleLength));
  app.add_flag("--no-pictures", a.no_pictures,
               "leave out the pictures: of the loss, and of a head before, during and after")
      ->group("Report");
  app.add_flag("--json", a.json, "one document at the end, for programs (docs/json.md)")
      ->group("Report");
}

}  // namespace

void add_train_options(CLI::App& app, TrainArguments& a) {
  app.add_option("FILES", a.files, "UTF-8 texts; the last tenth of each is held out")
      ->type_name("");
  offer(app.add_option("--text", a.text, "a text of the program's: poems or verse")
            ->type_name("NAME"),
        built_in_text_names());
  offer(app.add_option("--example", a.example, "a task without a text: tiny, copy or reformer-copy")
            ->type_name("NAME"),
        train_example_names());
  app.add_option("--output", a.output,
                 fmt::format("the folder of the run (default {})", kDefaultFolder))
      ->type_name("DIR");
  app.add_option("--resume", a.resume, "go on with the run in this folder, on the same texts")
      ->type_name("DIR");
  app.add_option("--budget", a.budget, "the time of the run: 90s, 3m, 1h (default 3m)")
      ->type_name("TIME");
  app.add_option("--steps", a.steps, "updates of the parameters (default: as --budget allows)")
      ->type_name("N");
  app.add_option("--seed", a.seed, "of first values, batches and samples (default 1)")
      ->type_name("N");
  app.add_option("--threads", a.threads,
                 "use at most N threads (default: what the machine gives, or RAPT_THREADS)")
      ->type_name("N");
  add_size_options(app, a);
  add_report_options(app, a);
}

TextRunSettings text_run_settings(const TrainArguments& a) {
  check_texts(a);
  TextRunSettings settings;
  settings.resumes = !a.resume.empty();
  if (settings.resumes) refuse_settings_of_resumed(a);
  settings.folder = settings.resumes ? a.resume : a.output.empty() ? kDefaultFolder : a.output;
  settings.seconds = parse_budget(a.budget);
  settings.steps = size_option("--steps", a.steps, kMostUpdates);
  settings.evaluation_interval = size_option("--eval-every", a.evaluate_every, kMostUpdates);
  read_tokenizer_choice(a, settings);
  read_model_options(a, settings);
  read_rates(a, settings);
  settings.seed = integer_from("--seed", a.seed, 1, 0);
  settings.sample_interval = integer_from("--sample-every", a.sample_every, 1, 0);
  settings.sample_length =
      integer_within("--sample-length", a.sample_length, kDefaultSampleLength, 1, kMostBlock);
  settings.draws = !a.no_pictures;
  settings.context.threads = parse_threads(a.threads);
  return settings;
}

void refuse_options_of_texts(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    constexpr std::string_view kOfExamples[] = {"--example", "--seed", "--steps", "--threads",
                                                "--json"};
    const std::string name = option->get_name();
    if (option->count() > 0 && std::ranges::find(kOfExamples, name) == std::end(kOfExamples))
      throw usage_error(name + " is for training on a text, not for --example");
  }
}

}  // namespace rapt::cli
