#pragma once
// Trains a language model on texts: AdamW, a learning rate by warm-up and cosine, clipped
// gradients.
//
//   TrainingData data(texts, learn_tokenizer(texts, {}));
//   Trainer trainer({.layout = nn::LanguageModelLayout::qwen3, .vocabulary = ..., ...}, settings,
//                   std::move(data));
//   while (trainer.state().step < settings.steps) trainer.step();
//
// run_training.h is this loop with evaluations, checkpoints and cancellation.
//
// Update t, counted from 0, reads `batch` windows of the parts for training. A window has block + 1
// tokens of one text: inputs and, one further, targets. Row r begins at the place that number
// t batch + r of Philox4x32-10 chooses among all places. So a run has the same bits for any
// executor and number of threads, and whether or not it was resumed: weights, moments and records.
//
// All memory is taken by the constructor. step() and evaluate() allocate nothing.
#include <cstdint>
#include <memory>
#include <vector>

#include "rapt/context.h"
#include "rapt/nn/adam.h"
#include "rapt/nn/language_model.h"
#include "rapt/training/training_checkpoint.h"
#include "rapt/training/training_data.h"
#include "rapt/training/training_settings.h"
#include "rapt/training/training_state.h"

namespace rapt::training {

// One update.
struct StepRecord {
  int64_t step = 0;          // updates so far, this one included
  double loss = 0;           // nats per token, before the update
  double learning_rate = 0;  // of the update
  double gradient_norm = 0;  // before clipping
};

// The loss of held-out windows.
struct EvaluationRecord {
  int64_t step = 0;          // updates so far
  double loss = 0;           // nats per token
  double loss_per_byte = 0;  // nats per byte of text, to compare tokenizers by
  int64_t tokens = 0;        // that were predicted
  bool best = false;         // is it the least loss so far?
};

class TokenWindows;

// A model, its optimiser and its place in the texts.
class Trainer {
 public:
  // A new model. `spec.vocabulary` is that of the tokenizer, and `spec.context` at least the block.
  // What `context` points to must outlive the trainer. Its cancel token stops step() and
  // evaluate().
  //
  // Throws Error(argument) for settings that are out of range, a vocabulary other than the
  // tokenizer's, and texts whose part for training or held-out part is shorter than block + 1
  // tokens; Error as nn::make_language_model(); std::bad_alloc.
  Trainer(const nn::LanguageModelSpec& spec, const TrainingSettings& settings, TrainingData data,
          const Context& context = {});

  // Goes on where a checkpoint was written. Throws also Error(argument) if it was trained on other
  // texts, Error(argument, shape, dtype) if its optimizer.safetensors is not of this model.
  Trainer(Checkpoint checkpoint, TrainingData data, const Context& context = {});

  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  // Makes one update. Throws before the model has changed: Error(cancelled), and Error(argument)
  // if the loss or a gradient is not finite.
  StepRecord step();

  // Computes the loss of the held-out windows, without dropout. Throws Error(cancelled), and
  // Error(argument) if the loss is not finite; the state is then unchanged.
  EvaluationRecord evaluate();

  // Does the present step have an evaluation that was not made yet?
  bool evaluation_is_due() const noexcept;

  // What training.json holds.
  const TrainingState& state() const noexcept { return state_; }
  // With the weights of the present step.
  const nn::LanguageModel& model() const noexcept { return model_; }
  // What it is trained on.
  const TrainingData& data() const noexcept { return data_; }
  // For save_checkpoint(). Valid until the next step.
  CheckpointView checkpoint();

 private:
  Trainer(nn::LanguageModel&& model, const TrainingState& state, TrainingData&& data,
          const Context& context);

  void add_parameters();
  void plan_memory();
  void choose_evaluation_windows();
  void read_batch();
  int64_t read_evaluation_batch(size_t first);
  double batch_loss(const nn::Run& run, const nn::CrossEntropyOptions& options);

  TrainingState state_;
  TrainingData data_;
  Context context_;
  nn::LanguageModel model_;
  std::vector<nn::Parameter*> parameters_;
  nn::AdamW optimizer_;

  std::unique_ptr<TokenWindows> training_windows_, held_out_windows_;
  std::vector<int64_t> evaluation_windows_;  // places in the held-out parts

  Tensor tokens_, targets_;  // [batch, block] i64
  std::vector<std::byte> state_memory_, scratch_memory_;
  nn::Arena scratch_;
  nn::LanguageModel::State layer_states_;
};

}  // namespace rapt::training
