#include "rapt/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "rapt/nn/clip.h"
#include "rapt/nn/dropout.h"
#include "rapt/nn/init.h"
#include "rapt/nn/schedule.h"
#include "training/token_windows.h"

namespace rapt::training {
namespace {

[[noreturn]] void fail_training(const std::string& message, const char* argument = "") {
  throw Error(ErrorCode::argument, message, argument);
}

nn::LanguageModel make_first_model(const nn::LanguageModelSpec& spec,
                                   const TrainingSettings& settings) {
  check_settings(settings);
  nn::LanguageModel model = make_language_model(spec, settings.dtype);
  initialize_language_model(model, static_cast<uint64_t>(settings.seed));
  return model;
}

nn::WarmupCosine schedule_of(const TrainingSettings& settings) {
  return {.peak = settings.learning_rate,
          .warmup_steps = settings.warmup_steps,
          .total_steps = settings.steps,
          .min_ratio = settings.min_learning_rate / settings.learning_rate};
}

void check_finite(double value, const char* what, int64_t step, const TrainingSettings& settings) {
  if (std::isfinite(value)) return;
  fail_training(std::string(what) + " of step " + std::to_string(step) + " is " +
                    std::to_string(value) + "; lower the learning rate of " +
                    std::to_string(settings.learning_rate) +
                    " or warm up longer, and go on from an earlier checkpoint",
                "learning_rate");
}

void check_windows(const TokenWindows& windows, const char* part, int64_t block) {
  if (windows.count() == 0)
    fail_training(std::string("no text has ") + std::to_string(block + 1) + " tokens " + part +
                      ", a block and its last target; give a longer text or a smaller block",
                  "block");
}

int64_t* integers_in(Tensor& tensor) { return static_cast<int64_t*>(tensor.data()); }

}  // namespace

Trainer::Trainer(const nn::LanguageModelSpec& spec, const TrainingSettings& settings,
                 TrainingData data, const Context& context)
    : Trainer(make_first_model(spec, settings),
              TrainingState{.text_hash = data.text_hash(), .settings = settings}, std::move(data),
              context) {}

Trainer::Trainer(Checkpoint checkpoint, TrainingData data, const Context& context)
    : Trainer(std::move(checkpoint.model), checkpoint.state, std::move(data), context) {
  if (state_.text_hash != data_.text_hash())
    fail_training("the checkpoint was trained on other texts; give the same ones in the same order",
                  "texts");
  std::vector<nn::NamedView> given;
  for (const auto& [name, tensor] : checkpoint.optimizer) given.push_back({name, tensor.view()});
  try {
    nn::load_tensors(optimizer_.state(), given);
  } catch (const Error& e) {
    throw Error(e.code(), std::string("optimizer.safetensors: ") + e.what(), e.argument());
  }
}

Trainer::Trainer(nn::LanguageModel&& model, const TrainingState& state, TrainingData&& data,
                 const Context& context)
    : state_(state), data_(std::move(data)), context_(context), model_(std::move(model)) {
  const TrainingSettings& settings = state_.settings;
  check_settings(settings);
  if (model_.spec.vocabulary != data_.tokenizer().vocabulary())
    fail_training("the model has " + std::to_string(model_.spec.vocabulary) +
                      " tokens, the tokenizer " + std::to_string(data_.tokenizer().vocabulary()) +
                      "; expected as many",
                  "vocabulary");
  if (settings.block > model_.spec.context)
    fail_training("block is " + std::to_string(settings.block) + "; the model has " +
                      std::to_string(model_.spec.context) + " positions",
                  "block");
  training_windows_ = std::make_unique<TokenWindows>(data_.training(), settings.block);
  held_out_windows_ = std::make_unique<TokenWindows>(data_.held_out(), settings.block);
  check_windows(*training_windows_, "to train on", settings.block);
  check_windows(*held_out_windows_, "in its last tenth, which is held out", settings.block);
  choose_evaluation_windows();
  add_parameters();
  plan_memory();
}

Trainer::~Trainer() = default;

void Trainer::choose_evaluation_windows() {
  const TrainingSettings& settings = state_.settings;
  if (settings.evaluation == EvaluationWindows::consecutive) {
    evaluation_windows_ = held_out_windows_->consecutive(settings.evaluation_windows);
    return;
  }
  for (int64_t i = 0; i < settings.evaluation_windows; ++i)
    evaluation_windows_.push_back(
        held_out_windows_->drawn(settings.seed, WindowStream::held_out, i));
}

void Trainer::add_parameters() {
  const TrainingSettings& settings = state_.settings;
  nn::AdamWOptions options{
      .beta1 = settings.beta1, .beta2 = settings.beta2, .weight_decay = settings.weight_decay};
  nn::SplitParameters split = nn::split_by_rank(nn::named_parameters(model_));
  optimizer_.add_group(std::move(split.weights), options);
  options.weight_decay = 0;
  optimizer_.add_group(std::move(split.others), options);
  parameters_ = nn::parameters_of(model_);
}

void Trainer::plan_memory() {
  const int64_t batch = state_.settings.batch, block = state_.settings.block;
  tokens_ = Tensor(DType::i64, {batch, block});
  targets_ = Tensor(DType::i64, {batch, block});
  std::fill_n(integers_in(tokens_), tokens_.count(), 0);
  std::fill_n(integers_in(targets_), targets_.count(), 0);
  nn::Arena states, scratch;  // count
  layer_states_ = make_state(model_, batch, block, states);
  for (const bool training : {true, false})
    batch_loss({.scratch = scratch, .context = context_, .training = training}, {});
  backward(model_, tokens_, targets_, layer_states_,
           {.scratch = scratch, .context = context_, .training = true});
  state_memory_.resize(states.bytes());
  scratch_memory_.resize(scratch.bytes());
  nn::Arena kept(state_memory_);
  layer_states_ = make_state(model_, batch, block, kept);
  scratch_ = nn::Arena(scratch_memory_);
}

double Trainer::batch_loss(const nn::Run& run, const nn::CrossEntropyOptions& options) {
  forward(model_, tokens_, layer_states_, run);
  return target_loss(model_, targets_, layer_states_, run, options);
}

void Trainer::read_batch() {
  const TrainingSettings& settings = state_.settings;
  for (int64_t row = 0; row < settings.batch; ++row) {
    const int64_t window = training_windows_->drawn(settings.seed, WindowStream::training,
                                                    state_.step * settings.batch + row);
    const int64_t at = row * settings.block;
    training_windows_->read(window, integers_in(tokens_) + at, integers_in(targets_) + at);
  }
}

StepRecord Trainer::step() {
  const TrainingSettings& settings = state_.settings;
  const int64_t updates = state_.step + 1;
  read_batch();
  nn::clear_gradients(parameters_);
  const nn::Run run{.scratch = scratch_,
                    .context = context_,
                    .training = true,
                    .seed = nn::stream_seed(static_cast<uint64_t>(settings.seed),
                                            static_cast<uint64_t>(state_.step))};
  const double loss = batch_loss(run, {});
  check_finite(loss, "the loss", updates, settings);
  backward(model_, tokens_, targets_, layer_states_, run);
  const double norm = settings.clip_norm > 0
                          ? nn::clip_gradients(parameters_, settings.clip_norm, context_)
                          : nn::gradient_norm(parameters_, context_);
  check_finite(norm, "the norm of the gradients", updates, settings);
  const double rate = nn::learning_rate(schedule_of(settings), state_.step);
  optimizer_.step(rate, context_);
  state_.step = updates;
  return {.step = updates, .loss = loss, .learning_rate = rate, .gradient_norm = norm};
}

// Returns the bytes of the text that is predicted. Rows beyond the last window have targets that do
// not count.
int64_t Trainer::read_evaluation_batch(size_t first) {
  const int64_t block = state_.settings.block;
  int64_t bytes = 0;
  for (int64_t row = 0; row < state_.settings.batch; ++row) {
    int64_t* const inputs = integers_in(tokens_) + row * block;
    int64_t* const targets = integers_in(targets_) + row * block;
    const size_t at = first + static_cast<size_t>(row);
    if (at >= evaluation_windows_.size()) {
      std::fill_n(inputs, block, 0);
      std::fill_n(targets, block, nn::CrossEntropyOptions().ignore_index);
      continue;
    }
    held_out_windows_->read(evaluation_windows_[at], inputs, targets);
    for (int64_t i = 0; i < block; ++i) bytes += data_.bytes_of(targets[i]);
  }
  return bytes;
}

EvaluationRecord Trainer::evaluate() {
  const nn::Run run{.scratch = scratch_, .context = context_};
  double sum = 0;
  int64_t bytes = 0;
  for (size_t first = 0; first < evaluation_windows_.size();
       first += static_cast<size_t>(state_.settings.batch)) {
    bytes += read_evaluation_batch(first);
    sum += batch_loss(run, {.reduction = nn::Reduction::sum});
  }
  const int64_t tokens = std::ssize(evaluation_windows_) * state_.settings.block;
  const double loss = sum / static_cast<double>(tokens);
  check_finite(loss, "the held-out loss", state_.step, state_.settings);
  const bool best = !state_.best || loss < state_.best->loss;
  if (best) state_.best = BestEvaluation{.step = state_.step, .loss = loss};
  state_.evaluated_step = state_.step;
  return {.step = state_.step,
          .loss = loss,
          .loss_per_byte = sum / static_cast<double>(bytes),
          .tokens = tokens,
          .best = best};
}

bool Trainer::evaluation_is_due() const noexcept {
  const TrainingSettings& settings = state_.settings;
  const bool wanted =
      state_.step % settings.evaluation_interval == 0 || state_.step == settings.steps;
  return wanted && state_.evaluated_step != state_.step;
}

CheckpointView Trainer::checkpoint() {
  std::vector<NamedTensor> optimizer;
  for (const nn::NamedView& one : optimizer_.state()) optimizer.push_back({one.name, one.view});
  return {.state = state_,
          .model = model_,
          .tokenizer = data_.tokenizer(),
          .optimizer = std::move(optimizer)};
}

}  // namespace rapt::training
