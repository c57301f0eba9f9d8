// Trains one attention layer to copy, with nothing but the two calls of attention and plain loops.
//
// A sequence is 16 symbols and 16 blanks. At each blank the layer must predict the symbol 16 places
// before: at position 16 + t, symbol t. Adam trains a row of numbers per token for each of queries,
// keys and values, a row per symbol that outputs are compared with, and a number per distance,
// which is added to the scores (relative positions):
//
//   query_i = queries[token_i], key_j = keys[token_j], value_j = values[token_j]
//   output  = softmax(query key^T / sqrt(d) + distances[i - j], causal) value
//   p(s)    = softmax over the symbols s of output_i . symbols[s];   loss = -mean ln p(right one)
//
// The backward pass sums the gradient of the bias [1, 32, 32] over the batch; this program then
// sums its diagonals. The exit status is 1 unless 1,000 of 1,000 new sequences are copied.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr size_t kSymbols = 16, kCopied = 16, kTokens = 2 * kCopied, kDim = 16, kBatch = 50;
constexpr size_t kBlank = kSymbols;  // the token after the last symbol
constexpr int kSteps = 100;
constexpr size_t kTestBatches = 20;  // 1,000 sequences

// Parameters of one kind with their gradient.
class Learned {
 public:
  Learned(size_t count, float spread, std::mt19937_64& random)
      : values(count), gradient(count), mean_(count), square_(count) {
    for (float& value : values)
      value = spread * (static_cast<float>(random() >> 40) * 0x1p-23f - 1);  // in [-spread, spread)
  }

  std::vector<float> values, gradient;

  // Does one step of Adam and clears the gradient (Kingma & Ba 2015, arXiv:1412.6980, algorithm 1).
  // `step` counts from 1.
  void learn(int step) {
    constexpr float kRate = 0.05f, kMean = 0.9f, kSquare = 0.99f, kSmall = 1e-8f;
    const float mean_share = 1 - std::pow(kMean, static_cast<float>(step));
    const float square_share = 1 - std::pow(kSquare, static_cast<float>(step));
    for (size_t i = 0; i < values.size(); ++i) {
      mean_[i] += (1 - kMean) * (gradient[i] - mean_[i]);
      square_[i] += (1 - kSquare) * (gradient[i] * gradient[i] - square_[i]);
      values[i] -=
          kRate * (mean_[i] / mean_share) / (std::sqrt(square_[i] / square_share) + kSmall);
      gradient[i] = 0;
    }
  }

 private:
  std::vector<float> mean_, square_;
};

// [kBatch][kTokens] tokens: symbols, then blanks.
std::vector<size_t> draw(std::mt19937_64& random) {
  std::vector<size_t> tokens(kBatch * kTokens, kBlank);
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t t = 0; t < kCopied; ++t) tokens[b * kTokens + t] = random() % kSymbols;
  return tokens;
}

struct Layer {
  Learned queries, keys, values;  // [kSymbols + 1][kDim]
  Learned distances;              // [kTokens]: i - j
  Learned symbols;                // [kSymbols][kDim]

  explicit Layer(std::mt19937_64& random)
      : queries((kSymbols + 1) * kDim, 0.3f, random),
        keys((kSymbols + 1) * kDim, 0.3f, random),
        values((kSymbols + 1) * kDim, 0.3f, random),
        distances(kTokens, 0, random),
        symbols(kSymbols * kDim, 0.3f, random) {}

  void learn(int step) {
    for (Learned* one : {&queries, &keys, &values, &distances, &symbols}) one->learn(step);
  }
};

// The rows of a table for the tokens: [kBatch, kTokens, kDim].
rapt::Tensor rows_of(const Learned& table, const std::vector<size_t>& tokens) {
  rapt::Tensor rows(rapt::DType::f32, {kBatch, kTokens, kDim});
  float* to = rows.values<float>().data();
  for (const size_t token : tokens) to = std::copy_n(table.values.data() + token * kDim, kDim, to);
  return rows;
}

// The reverse: adds gradients of the rows to those of the table.
void add_rows(const rapt::Tensor& rows, const std::vector<size_t>& tokens, Learned& table) {
  const auto from = rows.values<float>();
  for (size_t r = 0; r < tokens.size(); ++r)
    for (size_t d = 0; d < kDim; ++d) table.gradient[tokens[r] * kDim + d] += from[r * kDim + d];
}

struct Inputs {
  rapt::Tensor query, key, value;  // [kBatch, kTokens, kDim]
  rapt::Tensor bias;               // [1, kTokens, kTokens]: the same for all sequences

  Inputs(const Layer& layer, const std::vector<size_t>& tokens)
      : query(rows_of(layer.queries, tokens)),
        key(rows_of(layer.keys, tokens)),
        value(rows_of(layer.values, tokens)),
        bias(rapt::DType::f32, {1, kTokens, kTokens}) {
    for (size_t i = 0; i < kTokens; ++i)
      for (size_t j = 0; j < kTokens; ++j)  // the causal mask excludes later keys
        bias.values<float>()[i * kTokens + j] = j <= i ? layer.distances.values[i - j] : 0;
  }
};

// p(s) for one output of attention.
std::vector<float> probabilities(const Layer& layer, const float* output) {
  std::vector<float> p(kSymbols);
  for (size_t s = 0; s < kSymbols; ++s)
    for (size_t d = 0; d < kDim; ++d) p[s] += layer.symbols.values[s * kDim + d] * output[d];
  const float largest = *std::max_element(p.begin(), p.end());
  float sum = 0;
  for (float& x : p) sum += x = std::exp(x - largest);
  for (float& x : p) x /= sum;
  return p;
}

// Calls visit(b, t, row) for every blank: the row of outputs in which sequence b says symbol t.
template <class Visit>
void for_each_blank(const Visit& visit) {
  for (size_t b = 0; b < kBatch; ++b)
    for (size_t t = 0; t < kCopied; ++t) visit(b, t, b * kTokens + kCopied + t);
}

// The mean loss of a batch; adds its gradients to those of the layer.
float loss_with_gradients(Layer& layer, const std::vector<size_t>& tokens) {
  const Inputs inputs(layer, tokens);
  const rapt::Causal causal;
  const rapt::AttentionOptions options{.masks = {&causal}, .bias = inputs.bias};
  rapt::AttentionResult forward =
      rapt::scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, options);

  float loss = 0;
  constexpr float kShare = 1.0f / (kBatch * kCopied);
  rapt::Tensor d_output(rapt::DType::f32, {kBatch, kTokens, kDim});
  const auto gradient = d_output.values<float>();
  std::fill(gradient.begin(), gradient.end(), 0.0f);
  for_each_blank([&](size_t b, size_t t, size_t row) {
    const float* output = forward.output.values<float>().data() + row * kDim;
    const std::vector<float> p = probabilities(layer, output);
    const size_t right = tokens[b * kTokens + t];
    loss -= kShare * std::log(p[right]);
    for (size_t s = 0; s < kSymbols; ++s) {
      const float d_score = kShare * (p[s] - (s == right ? 1.0f : 0.0f));
      for (size_t d = 0; d < kDim; ++d) {
        gradient[row * kDim + d] += d_score * layer.symbols.values[s * kDim + d];
        layer.symbols.gradient[s * kDim + d] += d_score * output[d];
      }
    }
  });

  const rapt::Gradients gradients = rapt::scaled_dot_product_attention_backward(
      inputs.query, inputs.key, inputs.value, options,
      {.state = forward.state(), .d_output = d_output}, {.bias = true});
  add_rows(gradients.d_query, tokens, layer.queries);
  add_rows(gradients.d_key, tokens, layer.keys);
  add_rows(gradients.d_value, tokens, layer.values);
  const auto d_bias = gradients.d_bias.values<float>();  // [1, kTokens, kTokens]
  for (size_t i = 0; i < kTokens; ++i)
    for (size_t j = 0; j <= i; ++j) layer.distances.gradient[i - j] += d_bias[i * kTokens + j];
  return loss;
}

// The number of sequences of a batch that are copied without a mistake.
size_t copied(const Layer& layer, const std::vector<size_t>& tokens) {
  const Inputs inputs(layer, tokens);
  const rapt::Causal causal;
  const rapt::AttentionResult forward = rapt::scaled_dot_product_attention(
      inputs.query, inputs.key, inputs.value, {.masks = {&causal}, .bias = inputs.bias});
  std::vector<bool> right(kBatch, true);
  for_each_blank([&](size_t b, size_t t, size_t row) {
    const std::vector<float> p =
        probabilities(layer, forward.output.values<float>().data() + row * kDim);
    const auto said = std::max_element(p.begin(), p.end()) - p.begin();
    if (static_cast<size_t>(said) != tokens[b * kTokens + t]) right[b] = false;
  });
  return static_cast<size_t>(std::count(right.begin(), right.end(), true));
}

}  // namespace

int main() try {
  std::mt19937_64 random(1);
  Layer layer(random);
  for (int step = 1; step <= kSteps; ++step) {
    const float loss = loss_with_gradients(layer, draw(random));
    layer.learn(step);
    if (step % 10 == 0) std::printf("step %3d: loss %.6f\n", step, static_cast<double>(loss));
  }

  const std::vector<float>& distances = layer.distances.values;
  const auto preferred = std::max_element(distances.begin(), distances.end()) - distances.begin();
  std::printf("the distance that is preferred: %td, by a bias of %.1f\n", preferred,
              static_cast<double>(distances[static_cast<size_t>(preferred)]));
  // There are 16^16 sequences: those that are drawn now were not drawn before.
  size_t right = 0;
  for (size_t batch = 0; batch < kTestBatches; ++batch) right += copied(layer, draw(random));
  std::printf("%zu of %zu unseen sequences copied\n", right, kTestBatches * kBatch);
  return right == kTestBatches * kBatch ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
