#include "cli/train/examples/tiny.h"

#include <cmath>
#include <cstddef>
#include <span>

#include "rapt/nn/adam.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/init.h"
#include "rapt/nn/mse.h"
#include "rapt/nn/multi_head_attention.h"

namespace rapt::cli {
namespace {

constexpr int64_t kTinyTokens = 10, kTinyFeatures = 16, kTinyHeads = 4, kTinyEpochs = 100;
constexpr double kTinyLearningRate = 0.01;
constexpr int64_t kTinyText[] = {1, 2, 3, 4, 5, 6, 7, 8};  // [2, 4]

struct TinyModel {
  nn::Embedding embedding = nn::make_embedding(kTinyTokens, kTinyFeatures);
  nn::MultiHeadAttention attention = nn::make_multi_head_attention(kTinyFeatures, kTinyHeads);

  template <class Self, class F>
  static void members(Self& model, const F& f) {
    f("embedding", model.embedding);
    f("attention", model.attention);
  }
};

double root_mean_square(const TensorView& x) {
  const std::span<const float> values(static_cast<const float*>(x.data),
                                      static_cast<size_t>(x.count()));
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

struct TinyStep {
  double loss = 0, target_rms = 0;
};

// A forward and a backward call; adds to the gradients of the model. If `memory` counts, it counts
// what the call needs and computes nothing.
TinyStep forward_and_backward(TinyModel& model, nn::Arena& memory, const Context& context) {
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context, .training = true};
  const TensorView tokens(kTinyText, {2, 4});
  const TensorView x = memory.take(DType::f32, {2, 4, kTinyFeatures});
  const TensorView y = memory.take(DType::f32, x.dims());
  const TensorView d_y = memory.take(DType::f32, x.dims());
  const TensorView d_x = memory.take(DType::f32, x.dims());
  const nn::MultiHeadAttention::State state = make_state(model.attention, x.dims(), memory);

  TinyStep step;
  forward(model.embedding, tokens, x, run);
  forward(model.attention, x, y, state, run);
  step.loss = mean_squared_error(y, x, run);
  if (!run.counts()) step.target_rms = root_mean_square(x);

  mean_squared_error_gradient(y, x, d_y, run);
  backward(model.attention, x, d_y, state, d_x, run);
  backward(model.embedding, tokens, d_x, run);  // of x as the input
  mean_squared_error_gradient(x, y, d_x, run);  // of x as the target: the loss is symmetric
  backward(model.embedding, tokens, d_x, run);
  return step;
}

}  // namespace

TinyRun train_tiny(TinyEmbedding kind, uint64_t seed, const Context& context) {
  TinyModel model;
  nn::initialize(model, seed);
  if (kind != TinyEmbedding::trained) nn::freeze(model.embedding);

  nn::Arena counter;
  forward_and_backward(model, counter, context);
  std::vector<std::byte> bytes(counter.bytes());
  nn::Arena memory(bytes);

  const std::vector<nn::Parameter*> parameters = nn::parameters_of(model);
  nn::Adam adam{std::span<nn::Parameter* const>(parameters)};
  TinyRun run;
  for (int64_t epoch = 0; epoch < kTinyEpochs; ++epoch) {
    if (kind == TinyEmbedding::redrawn)
      nn::initialize(model.embedding, seed + static_cast<uint64_t>(epoch), context, "embedding.");
    nn::clear_gradients(parameters);
    const TinyStep step = forward_and_backward(model, memory, context);
    adam.step(kTinyLearningRate, context);
    run.losses.push_back(step.loss);
    if (epoch == 0) run.target_rms_before = step.target_rms;
    run.target_rms_after = step.target_rms;
  }
  return run;
}

}  // namespace rapt::cli
