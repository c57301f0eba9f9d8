#include "cli/train/training_texts.h"

#include <fmt/format.h>

#include "cli/input/tensor_input.h"
#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "cli/process/memory.h"
#include "cli/train/built_in_texts.h"
#include "rapt/text/learn.h"
#include "rapt/training/choose_sizes.h"

namespace rapt::cli {
namespace {

void check_training_text(const std::string& name, const std::string& text) {
  if (text.empty()) throw Failure(Exit::data, name + ": is empty; expected a text");
  if (const size_t zero = text.find('\0'); zero != std::string::npos)
    throw Failure(
        Exit::data,
        fmt::format("{}: has a zero byte at byte {}; expected a text in UTF-8", name, zero),
        "a file with zero bytes is binary, or a text in UTF-16, which iconv converts");
  try {
    text::learn_characters(text);
  } catch (const Error& error) {
    throw Failure(Exit::data, name + ": " + error.what());
  }
}

}  // namespace

int64_t TrainingTexts::bytes() const {
  int64_t sum = 0;
  for (const std::string& text : texts) sum += std::ssize(text);
  return sum;
}

std::vector<training::NamedText> TrainingTexts::views() const {
  std::vector<training::NamedText> views;
  for (size_t i = 0; i < texts.size(); ++i) views.push_back({names[i], texts[i]});
  return views;
}

TrainingTexts read_training_texts(const TrainArguments& a) {
  TrainingTexts read;
  if (!a.text.empty()) {
    read.names.push_back(a.text);
    read.texts.push_back(built_in_text(a.text).write());
  }
  MemoryBudget budget(-1);
  for (const std::string& file : a.files) {
    read.names.push_back(file);
    read.texts.push_back(read_text_file("FILE", file, budget));
    check_training_text(file, read.texts.back());
    stop_if_interrupted();
  }
  if (read.bytes() < training::kLeastTextBytes)
    throw Failure(Exit::data, fmt::format("{}: {} bytes are too short a text; expected {} or more",
                                          read.names[0], read.bytes(), training::kLeastTextBytes));
  const std::vector<training::NamedText> views = read.views();
  read.characters = training::learn_tokenizer(views, {}).vocabulary();
  return read;
}

}  // namespace rapt::cli
