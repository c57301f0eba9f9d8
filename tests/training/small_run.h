#pragma once
// A small run for tests: a text, a model and settings, and what a run has made, to compare bits.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "rapt/training/trainer.h"

namespace small_run {

using namespace rapt;
using namespace rapt::training;

// A folder of its own that is removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = testing::TempDir() + "/rapt_training_XXXXXX";
    path_ = mkdtemp(name.data());
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string repeated_text() {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "The quick brown fox jumps over the lazy dög. ";
  return text;
}

inline TrainingData data_of(const std::string& text) {
  const NamedText texts[] = {{"text.txt", text}};
  return TrainingData(texts, learn_tokenizer(texts, {}));
}

inline nn::LanguageModelSpec small_spec(nn::LanguageModelLayout layout, const TrainingData& data) {
  const double dropout = layout == nn::LanguageModelLayout::gpt2 ? 0.1 : 0;
  return {.layout = layout,
          .vocabulary = data.tokenizer().vocabulary(),
          .context = 16,
          .layers = 2,
          .heads = 2,
          .features = 32,
          .hidden_features = 64,
          .embedding_dropout = dropout,
          .attention_dropout = 0.1,
          .residual_dropout = dropout};
}

inline TrainingSettings small_settings() {
  return {.batch = 4,
          .block = 16,
          .steps = 20,
          .learning_rate = 1e-2,
          .min_learning_rate = 1e-3,
          .warmup_steps = 4,
          .evaluation_interval = 5,
          .evaluation_windows = 6};
}

inline std::vector<std::byte> bytes_of(const TensorView& view) {
  const Tensor dense = Tensor::copy_of(view);
  const auto* const begin = static_cast<const std::byte*>(dense.data());
  return {begin, begin + dense.count() * size_of(dense.dtype())};
}

// Weights, moments and f32 copies.
inline std::vector<std::vector<std::byte>> all_bytes(Trainer& trainer) {
  std::vector<std::vector<std::byte>> all;
  nn::visit(trainer.model(), [&](const std::string&, const nn::Parameter& p) {
    all.push_back(bytes_of(p.value.view()));
  });
  for (const NamedTensor& tensor : trainer.checkpoint().optimizer)
    all.push_back(bytes_of(tensor.view));
  return all;
}

}  // namespace small_run
