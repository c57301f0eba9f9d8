// A learned scale per head finds the temperature that the data have.
//
// Each head looks for the key that a query was made of: query = key + noise, where keys have length
// 1 and the noise of head h has the standard deviation s_h. The best guess of the key's value is
// the mean of all values with the weights softmax(query . key / s_h^2) (Bayes' rule). Attention
// divides by sqrt(head_dim) instead, whatever the noise is. `head_scale(learned)` multiplies the
// scores of a head by a learned factor, which should become sqrt(head_dim) / s_h^2.
//
// All projections are the identity and frozen, so that only the factors learn. The program prints
// them before and after, beside the best ones, and the loss with and without them. It exits with 1
// unless each factor is within 5 % of the best one and the loss falls by a third.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "rapt/nn/adam.h"
#include "rapt/nn/init.h"
#include "rapt/nn/mse.h"
#include "rapt/nn/multi_head_attention.h"
#include "rapt/nn/schedule.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::Tensor;

constexpr int64_t kHeads = 4, kHeadDim = 8, kFeatures = kHeads * kHeadDim;
constexpr int64_t kBatch = 64, kQueries = 16, kKeys = 16, kSteps = 300;
constexpr float kNoise[kHeads] = {0.3f, 0.4f, 0.5f, 0.7f};

nn::MultiHeadAttention make_layer(bool learned) {
  nn::MultiHeadAttentionSpec spec{.bias = false};
  if (learned) spec.scores = {"head_scale(learned)"};
  nn::MultiHeadAttention layer = nn::make_multi_head_attention(kFeatures, kHeads, spec);
  for (nn::Parameter* p : {&layer.in_proj_weight, &layer.out_proj.weight}) {
    for (int64_t row = 0; row < p->value.dim(0); ++row)  // identities, one below the other
      p->value.values<float>()[static_cast<size_t>(row * kFeatures + row % kFeatures)] = 1;
    p->gradient = {};  // frozen
  }
  return layer;
}

struct Batch {
  Tensor query{DType::f32, {kBatch, kQueries, kFeatures}};
  Tensor key{DType::f32, {kBatch, kKeys, kFeatures}};
  Tensor value{DType::f32, {kBatch, kKeys, kFeatures}};
  Tensor target{DType::f32, {kBatch, kQueries, kFeatures}};  // the values of the keys meant
};

// Query i is made of key i.
void draw(Batch& batch, uint64_t seed) {
  nn::draw(batch.key.view(), nn::Init::normal(), seed, "key");
  nn::draw(batch.value.view(), nn::Init::normal(), seed, "value");
  nn::draw(batch.query.view(), nn::Init::normal(), seed, "noise");
  float* key = batch.key.values<float>().data();
  float* query = batch.query.values<float>().data();
  for (int64_t head = 0; head < kBatch * kKeys * kHeads; ++head) {
    float squares = 0;
    for (int64_t d = 0; d < kHeadDim; ++d) squares += key[d] * key[d];
    for (int64_t d = 0; d < kHeadDim; ++d, ++key, ++query) {
      *key /= std::sqrt(squares);
      *query = *key + kNoise[head % kHeads] * *query;
    }
  }
  batch.target = Tensor::copy_of(batch.value);
}

// One forward and backward call: the loss, and gradients added to those of the factors.
double step(nn::MultiHeadAttention& layer, const Batch& batch, nn::Arena& memory) {
  const rapt::Context context;
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context, .training = true};
  const nn::MultiHeadCall call{.key_value = batch.key.view(), .value = batch.value.view()};
  const auto state = make_state(layer, batch.query.dims(), memory, batch.key.dims());
  const rapt::TensorView output = memory.take(DType::f32, batch.query.dims());
  forward(layer, batch.query, output, state, run, call);
  const double loss = mean_squared_error(output, batch.target, run);
  mean_squared_error_gradient(output, batch.target, output, run);
  backward(layer, batch.query, output, state, rapt::TensorView(), run, false, call);
  return loss;
}

// The mean loss of batches that are used for nothing else.
double test_loss(nn::MultiHeadAttention& layer, Batch& batch, nn::Arena& memory) {
  constexpr uint64_t kBatches = 20, kFirst = 1'000'000;
  double sum = 0;
  for (uint64_t b = 0; b < kBatches; ++b) {
    draw(batch, kFirst + b);
    sum += step(layer, batch, memory);
  }
  return sum / static_cast<double>(kBatches);
}

}  // namespace

int main() try {
  nn::MultiHeadAttention fixed = make_layer(false), layer = make_layer(true);
  Batch batch;
  draw(batch, 0);
  nn::Arena counter;  // without memory: counts
  step(layer, batch, counter);
  step(fixed, batch, counter);
  std::vector<std::byte> bytes(counter.bytes());
  nn::Arena memory(bytes);

  const std::vector<nn::Parameter*> parameters = nn::parameters_of(layer);
  nn::Adam adam{std::span<nn::Parameter* const>(parameters), {.beta2 = 0.9}};
  const auto factors = layer.learned.front().parameter.value.values<float>();
  const std::vector<float> before(factors.begin(), factors.end());
  for (int64_t t = 0; t < kSteps; ++t) {
    draw(batch, static_cast<uint64_t>(t));
    nn::clear_gradients(parameters);
    step(layer, batch, memory);
    adam.step(nn::learning_rate({.peak = 0.5, .total_steps = kSteps}, t));
  }

  bool good = true;
  std::printf("head   noise   factor before   after   best\n");
  for (size_t h = 0; h < kHeads; ++h) {
    const double noise = static_cast<double>(kNoise[h]), after = static_cast<double>(factors[h]);
    const double best = std::sqrt(static_cast<double>(kHeadDim)) / (noise * noise);
    std::printf("%4zu   %.2f    %13.2f  %6.2f  %5.2f\n", h, noise, static_cast<double>(before[h]),
                after, best);
    good &= std::abs(after / best - 1) < 0.05;
  }
  const double by_fixed = test_loss(fixed, batch, memory),
               by_learned = test_loss(layer, batch, memory);
  std::printf("loss with 1 / sqrt(head_dim): %.4f, with learned scales: %.4f\n", by_fixed,
              by_learned);
  return good && by_learned < by_fixed * 2 / 3 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
