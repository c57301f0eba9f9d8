// Trains multi-head attention to return its input, with layers, gradients and Adam of rapt::nn.
//
// Two rows of four tokens are embedded (10 tokens, 16 numbers each) and go through attention with
// four heads; the loss is the mean squared error between output and input. Many tutorials draw a
// new embedding in every epoch. Then no epoch sees the input of another, and the loss falls by
// little. Both versions run here. The exit status is 1 unless the loss of the first one falls by
// 500 times within 80 epochs.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "rapt/nn/adam.h"
#include "rapt/nn/embedding.h"
#include "rapt/nn/init.h"
#include "rapt/nn/mse.h"
#include "rapt/nn/multi_head_attention.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;

constexpr int64_t kTokens = 10, kDim = 16, kHeads = 4, kEpochs = 100;
constexpr int64_t kText[] = {1, 2, 3, 4, 5, 6, 7, 8};  // [2, 4]

// One forward and backward call: the loss, and gradients added to the parameters of `attention`.
double step(nn::MultiHeadAttention& attention, const nn::Embedding& embedding, nn::Arena& states,
            nn::Arena& scratch) {
  const rapt::Context context;
  const nn::Run run{.scratch = scratch, .context = context, .training = true};
  const nn::Arena::Frame frame(states);
  const rapt::TensorView x = states.take(DType::f32, {2, 4, kDim});
  const rapt::TensorView output = states.take(DType::f32, {2, 4, kDim});
  const auto state = make_state(attention, x.dims(), states);
  forward(embedding, rapt::TensorView(kText, {2, 4}), x, run);
  forward(attention, x, output, state, run);
  const double loss = mean_squared_error(output, x, run);
  mean_squared_error_gradient(output, x, output, run);  // overwrites the output by its gradient
  backward(attention, x, output, state, rapt::TensorView(), run);
  return loss;
}

// Trains for kEpochs; returns how many times smaller the loss is in epoch 80 than in epoch 0.
double train(bool new_embedding_each_epoch, uint64_t seed) {
  nn::MultiHeadAttention attention = nn::make_multi_head_attention(kDim, kHeads);
  nn::Embedding embedding = nn::make_embedding(kTokens, kDim);
  nn::initialize(attention, seed);
  nn::initialize(embedding, seed + 1);

  nn::Arena state_counter, scratch_counter;  // the same call counts the memory that it needs
  step(attention, embedding, state_counter, scratch_counter);
  std::vector<std::byte> state_memory(state_counter.bytes());
  std::vector<std::byte> scratch_memory(scratch_counter.bytes());
  nn::Arena states(state_memory), scratch(scratch_memory);

  const std::vector<nn::Parameter*> parameters = nn::parameters_of(attention);
  nn::Adam adam{std::span<nn::Parameter* const>(parameters)};
  double first = 0, at_80 = 0;
  for (int64_t epoch = 0; epoch < kEpochs; ++epoch) {
    if (new_embedding_each_epoch)
      nn::initialize(embedding, seed + 1 + static_cast<uint64_t>(epoch));
    nn::clear_gradients(parameters);
    const double loss = step(attention, embedding, states, scratch);
    adam.step(0.01);
    if (epoch % 20 == 0) std::printf("  epoch %2d, loss %.6f\n", static_cast<int>(epoch), loss);
    if (epoch == 0) first = loss;
    if (epoch == 80) at_80 = loss;
  }
  return first / at_80;
}

}  // namespace

int main() {
  try {
    std::printf("One embedding:\n");
    const double falls = train(false, 1);
    std::printf("  falls %.0f times by epoch 80\n\nA new embedding in each epoch:\n", falls);
    std::printf("  falls %.1f times by epoch 80\n", train(true, 1));
    return falls >= 500 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
