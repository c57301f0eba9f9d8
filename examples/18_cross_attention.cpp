// Multi-head cross attention: the queries of one sequence, the keys and values of two others.
//
// A batch of two decoders [2, 5, 24] attends to two encoded texts: keys [2, 7, 20] and values
// [2, 7, 12], whose widths are kdim and vdim. The texts have 7 and 4 words; the other rows of the
// second one are padding, which a mask by lengths excludes. The program prints weights, and exits
// with 1 unless
//
//   - the weights of each query sum to 1, and those of padding are 0
//   - gradients of padding are 0
//   - the other gradients are those that a small change of the inputs shows
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "rapt/mask/lengths.h"
#include "rapt/nn/init.h"
#include "rapt/nn/multi_head_attention.h"

namespace {

namespace nn = rapt::nn;
using rapt::DType;
using rapt::Tensor;

constexpr int64_t kBatch = 2, kQueries = 5, kKeys = 7, kHeads = 4;
constexpr int64_t kQueryDim = 24, kKeyDim = 20, kValueDim = 12;
constexpr int64_t kLengths[kBatch] = {7, 4};

struct Inputs {
  Tensor query{DType::f32, {kBatch, kQueries, kQueryDim}};
  Tensor key{DType::f32, {kBatch, kKeys, kKeyDim}};
  Tensor value{DType::f32, {kBatch, kKeys, kValueDim}};
};

struct Results {
  Tensor output{DType::f32, {kBatch, kQueries, kQueryDim}};
  Tensor weights{DType::f32, {kBatch, kHeads, kQueries, kKeys}};
  Inputs gradients;  // of the sum of all outputs
};

// A forward call and a backward call for output gradients of 1.
void attend(nn::MultiHeadAttention& layer, const Inputs& inputs, Results& results,
            nn::Arena& memory) {
  const rapt::Context context;
  const nn::Arena::Frame frame(memory);
  const nn::Run run{.scratch = memory, .context = context};
  const rapt::TensorView lengths(kLengths, {kBatch});
  const rapt::Lengths padding(lengths);

  nn::MultiHeadCall call{.key_value = inputs.key.view(), .value = inputs.value.view()};
  call.options.masks = {&padding};
  call.options.weights = rapt::WeightsRequest{};
  call.weights = results.weights.view();
  const auto state = make_state(layer, inputs.query.dims(), memory, inputs.key.dims());
  forward(layer, inputs.query, results.output, state, run, call);

  const rapt::TensorView d_output = memory.take(DType::f32, results.output.dims());
  if (!run.counts()) std::fill_n(static_cast<float*>(d_output.data), d_output.count(), 1.0f);
  backward(layer, inputs.query, d_output, state, results.gradients.query, run, false, call,
           {.key_value = results.gradients.key, .value = results.gradients.value});
}

// Prints the first head's weights of each batch. Do all rows sum to 1, and is padding 0?
bool show_weights(const Tensor& weights) {
  bool good = true;
  const float* row = weights.values<float>().data();
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t h = 0; h < kHeads; ++h) {
      if (h == 0) std::printf("batch %d, %d words, head 0:\n", int(b), int(kLengths[b]));
      for (int64_t i = 0; i < kQueries; ++i, row += kKeys) {
        double sum = 0;
        for (int64_t j = 0; j < kKeys; ++j) {
          sum += static_cast<double>(row[j]);
          if (j >= kLengths[b]) good &= row[j] == 0;
          if (h == 0) std::printf("  %.4f", static_cast<double>(row[j]));
        }
        if (h == 0) std::printf("   sum %.6f\n", sum);
        good &= std::abs(sum - 1) < 1e-6;
      }
    }
  }
  return good;
}

bool padding_has_no_gradient(const Tensor& gradient, int64_t width) {
  const auto values = gradient.values<float>();
  return std::all_of(values.begin() + (kKeys + kLengths[1]) * width, values.end(),
                     [](float d) { return d == 0; });
}

// Moves one tensor of the inputs a little; compares the change of all outputs with its gradient.
bool gradient_is_right(const char* name, nn::MultiHeadAttention& layer, Inputs& inputs,
                       Tensor& moved, const Tensor& gradient, nn::Arena& memory) {
  constexpr float kStep = 1e-2f;
  Tensor direction(DType::f32, moved.dims());
  nn::draw(direction.view(), nn::Init::uniform(1), 3, name);
  const auto d = direction.values<float>(), x = moved.values<float>();
  double predicted = 0, measured = 0;
  for (size_t i = 0; i < d.size(); ++i)
    predicted += static_cast<double>(gradient.values<float>()[i] * d[i]);
  for (const float side : {1.0f, -1.0f}) {
    for (size_t i = 0; i < d.size(); ++i) x[i] += side * kStep * d[i];
    Results there;
    attend(layer, inputs, there, memory);
    for (const float y : there.output.values<float>())
      measured += static_cast<double>(side * y / (2 * kStep));
    for (size_t i = 0; i < d.size(); ++i) x[i] -= side * kStep * d[i];
  }
  std::printf("along a direction of the %-5s: %8.4f by the gradient, %8.4f measured\n", name,
              predicted, measured);
  return std::abs(predicted - measured) < 0.01 * (1 + std::abs(predicted));
}

}  // namespace

int main() try {
  nn::MultiHeadAttention layer =
      nn::make_multi_head_attention(kQueryDim, kHeads, {.kdim = kKeyDim, .vdim = kValueDim});
  nn::initialize(layer, 1);
  Inputs inputs;
  nn::draw(inputs.query.view(), nn::Init::normal(), 2, "query");
  nn::draw(inputs.key.view(), nn::Init::normal(), 2, "key");
  nn::draw(inputs.value.view(), nn::Init::normal(), 2, "value");
  Results results;

  nn::Arena counter;  // without memory: counts
  attend(layer, inputs, results, counter);
  std::vector<std::byte> bytes(counter.bytes());
  nn::Arena memory(bytes);
  attend(layer, inputs, results, memory);

  const Inputs& gradients = results.gradients;
  bool good = show_weights(results.weights);
  good &= padding_has_no_gradient(gradients.key, kKeyDim);
  good &= padding_has_no_gradient(gradients.value, kValueDim);
  good &= gradient_is_right("query", layer, inputs, inputs.query, gradients.query, memory);
  good &= gradient_is_right("key", layer, inputs, inputs.key, gradients.key, memory);
  good &= gradient_is_right("value", layer, inputs, inputs.value, gradients.value, memory);
  return good ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
