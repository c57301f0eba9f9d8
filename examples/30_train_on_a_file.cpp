// Trains a language model on a UTF-8 file for 10 seconds and lets it write. Tokenizer, model and
// steps follow from the file, the time and the speed of a small model, which larger ones exceed.
// The last checkpoint and the best one stay in a folder that `rapt generate` and Hugging Face
// transformers open.
//
//   30_train_on_a_file FILE FOLDER
//
// Without arguments it trains on verse by a grammar for three seconds, in a temporary folder.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <span>
#include <string>

#include "rapt/generation/generator.h"
#include "rapt/text/stream_decoder.h"
#include "rapt/text/verse_grammar.h"
#include "rapt/training/choose_sizes.h"
#include "rapt/training/run_training.h"

namespace {

using namespace rapt;
using namespace rapt::training;

std::string read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::io, std::string(path) + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

// Floating-point operations per second of five updates of a small model.
double measure_speed(std::span<const NamedText> texts) {
  const TrainingData data(texts, learn_tokenizer(texts, {}));
  const nn::LanguageModelSpec spec{.layout = nn::LanguageModelLayout::qwen3,
                                   .vocabulary = data.tokenizer().vocabulary(),
                                   .context = 16,
                                   .layers = 2,
                                   .heads = 2,
                                   .features = 64};
  Trainer trainer(spec, {.batch = 8, .block = 16, .steps = 6, .warmup_steps = 0}, data);
  trainer.step();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) trainer.step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return 5 * training_flops(spec, 8, 16) / seconds.count();
}

// Whether a byte begins a character of UTF-8; others continue one.
bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) != 0x80; }

int64_t count_characters(const std::string& text) {
  std::set<std::string> characters;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    end = begin + 1;
    while (end < text.size() && !begins_character(text[end])) ++end;
    characters.insert(text.substr(begin, end - begin));
  }
  return std::ssize(characters);
}

// The first characters of a text, about four: tokens that its tokenizer knows.
std::string prompt_of(const std::string& text) {
  size_t end = std::min<size_t>(4, text.size());
  while (end < text.size() && !begins_character(text[end])) ++end;
  return text.substr(0, end);
}

void write_text(const nn::LanguageModel& model, const text::Tokenizer& tokenizer,
                const std::string& prompt) {
  const std::vector<int64_t> tokens = tokenizer.encode(prompt);
  generation::Generator generator(model,
                                  {.sampling = {.temperature = 0.7, .min_p = 0.05},
                                   .length = 100,
                                   .when_full = generation::WhenFull::slide},
                                  tokens);
  text::StreamDecoder decoder(tokenizer);
  std::printf("%s", prompt.c_str());
  while (generator.next()) std::printf("%s", decoder.next(generator.token(0)).c_str());
  std::printf("%s\n", decoder.finish().c_str());
}

void train(const std::string& name, const std::string& content, double seconds,
           const std::string& folder) {
  const NamedText texts[] = {{name, content}};
  const SizeRequest request{.text_bytes = std::ssize(content),
                            .characters = count_characters(content),
                            .seconds = seconds,
                            .flops_per_second = measure_speed(texts)};
  ChosenSizes sizes = choose_sizes(request);
  TrainingData data(texts, learn_tokenizer(texts, sizes.tokenizer));
  sizes.model.vocabulary = data.tokenizer().vocabulary();
  std::printf("%d tokens of %d bytes; %d layers of %d features\n",
              static_cast<int>(sizes.model.vocabulary), static_cast<int>(content.size()),
              static_cast<int>(sizes.model.layers), static_cast<int>(sizes.model.features));
  Trainer trainer(sizes.model, sizes.settings, std::move(data));
  run_training(trainer, folder, {.evaluation = [](const EvaluationRecord& record) {
                 std::printf("step %5d, held-out loss %.3f per byte\n",
                             static_cast<int>(record.step), record.loss_per_byte);
               }});
  const Checkpoint best = load_checkpoint(folder + kBest);
  write_text(best.model, best.tokenizer, prompt_of(content));
}

}  // namespace

int main(int count, char** arguments) try {
  if (count == 3) {
    train(arguments[1], read_file(arguments[1]), 10, arguments[2]);
  } else {
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / "rapt_train_on_a_file";
    std::filesystem::remove_all(folder);
    train("verse", text::write_verse(100'000, 1), 3, folder.string());
    std::filesystem::remove_all(folder);
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
