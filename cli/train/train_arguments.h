#pragma once
// The options of `rapt train`.
#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "rapt/context.h"
#include "rapt/training/choose_sizes.h"

namespace rapt::cli {

// As the user typed them.
struct TrainArguments {
  std::vector<std::string> files;
  std::string example, text;
  std::string output, resume, budget, steps;
  std::string tokenizer, vocabulary;
  std::string layout, layers, heads, features, block, batch, dropout, dtype;
  std::string learning_rate, seed;
  std::string evaluate_every, sample_every, sample_length;
  std::string threads;
  bool no_pictures = false;
  bool json = false;
};

// What a run on a text is asked for, checked. Absent: chosen from the text, the time and the speed.
struct TextRunSettings {
  std::string folder;
  bool resumes = false;
  double seconds = 0;  // of the whole run
  std::optional<training::TokenizerKind> tokenizer;
  std::optional<int64_t> vocabulary;
  nn::LanguageModelLayout layout = nn::LanguageModelLayout::qwen3;
  std::optional<int64_t> layers, heads, features, block, batch, steps;
  std::optional<int64_t> evaluation_interval;
  std::optional<double> learning_rate;
  double dropout = 0;
  DType dtype = DType::f32;
  int64_t seed = 1;
  int64_t sample_interval = 1;  // in evaluations; 0: no samples
  int64_t sample_length = 0;    // tokens
  bool draws = true;            // pictures into the folder
  Context context;
};

void add_train_options(CLI::App& app, TrainArguments& arguments);

// Throws usage errors.
TextRunSettings text_run_settings(const TrainArguments& arguments);

// Throws a usage error for an option that was given and is not for --example.
void refuse_options_of_texts(const CLI::App& app);

}  // namespace rapt::cli
