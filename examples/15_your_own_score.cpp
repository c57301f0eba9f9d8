// Shows a score of your own: nodes of a graph attend less to each other the farther apart they are.
// First by two functions, then by a struct with a learned strength.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "rapt/rapt.h"

namespace {
constexpr int64_t n = 300, dim = 16;
using Matrix = std::vector<float>;  // [n, dim] or [n, n]

// The number of edges between any two nodes, [n, n], of a ring with a few short cuts.
Matrix hops() {
  Matrix steps(n * n, 1e9f);
  for (int64_t i = 0; i < n; ++i) {
    steps[i * n + i] = 0;
    for (const int64_t j : {(i + 1) % n, i * 7 % n}) steps[i * n + j] = steps[j * n + i] = 1;
  }
  for (int64_t k = 0; k < n; ++k)
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        steps[i * n + j] = std::min(steps[i * n + j], steps[i * n + k] + steps[k * n + j]);
  for (int64_t x = 0; x < n * n; ++x) steps[x] = std::min(steps[x], 1e3f);
  return steps;
}

// The same with a strength that has a range and a gradient. `Tile` and the hooks are those of
// rapt/score/score.h, over the element type.
struct GraphDistance {
  double strength = 1;
  const float* steps = nullptr;  // [n, n]

  static const rapt::Declaration kDeclaration;
  static constexpr bool kUsesBefore = false, kUsesAfter = false;  // by backward()

  // s' = s - strength steps
  template <class E>
  void apply(rapt::Tile<E>& tile) const noexcept {
    for_each(tile,
             [&](E& score, E distance, int64_t) { score -= static_cast<E>(strength) * distance; });
  }
  // ds'/ds = 1, so gradients do not change. ds'/dstrength = -steps, summed per query.
  template <class E>
  void backward(const E*, const E*, rapt::Tile<E>& tile, E* sums) const noexcept {
    for_each(tile, [&](E& gradient, E distance, int64_t i) { sums[i] -= gradient * distance; });
  }

 private:
  template <class E, class Visit>
  void for_each(rapt::Tile<E>& tile, const Visit& visit) const noexcept {
    const rapt::Positions queries = tile.query_positions, keys = tile.key_positions;
    for (int64_t j = 0; j < tile.keys; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        visit(tile.scores[j * tile.queries + i], static_cast<E>(steps[queries[i] * n + keys[j]]),
              i);
  }
};
constexpr rapt::Parameter kParameters[] = {rapt::parameter<GraphDistance, &GraphDistance::strength>(
    "strength", "what a step takes from the score", {0, 100})};
const rapt::Declaration GraphDistance::kDeclaration = {
    "graph_distance", "nodes see near ones better", "this example", kParameters};

// The sum of all outputs of causal attention, by plain loops.
double plain_sum(const Matrix& x, const Matrix& steps, double strength) {
  double total = 0;
  std::vector<double> weights(n);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double dot = 0;
      for (int64_t d = 0; d < dim; ++d) dot += double{x[i * dim + d]} * x[j * dim + d];
      sum += weights[j] = std::exp(dot / std::sqrt(double{dim}) - strength * steps[i * n + j]);
    }
    for (int64_t j = 0; j <= i; ++j)
      for (int64_t d = 0; d < dim; ++d) total += weights[j] / sum * x[j * dim + d];
  }
  return total;
}

double sum_of(const rapt::Tensor& tensor) {
  double sum = 0;
  for (const float v : tensor.values<float>()) sum += v;
  return sum;
}

// Both are sums of 5,000 numbers near 1 in f32, whose errors are about 1e-6 each.
bool near(double a, double b) { return std::fabs(a - b) < 5e-3; }
}  // namespace

int main() try {
  Matrix numbers(n * dim);  // query, key and value at once
  for (int64_t i = 0; i < n * dim; ++i) numbers[i] = std::sin(static_cast<float>(i * i % 1009));
  const rapt::TensorView x(numbers.data(), {n, dim});
  const Matrix steps = hops();
  const rapt::Causal causal;

  // The new score, and its derivative by the old score. It combines with scores of the catalogue,
  // in their order: {softcap, near_nodes}.
  const rapt::CustomScore near_nodes(
      "near_nodes",
      [&](auto s, const rapt::PairPlace& at) {
        return s - static_cast<decltype(s)>(0.5f * steps[at.query * n + at.key]);
      },
      [](auto s, const rapt::PairPlace&) { return decltype(s)(1); });
  rapt::AttentionOptions options;
  options.masks = {&causal};
  options.scores = {near_nodes};
  const double by_functions = sum_of(rapt::scaled_dot_product_attention(x, x, x, options).output);
  const double expected = plain_sum(numbers, steps, 0.5);
  std::printf("two functions: %.4f, plain loops: %.4f\n", by_functions, expected);

  GraphDistance graph;
  graph.strength = 0.5, graph.steps = steps.data();
  options.scores = {graph};
  rapt::AttentionResult forward = rapt::scaled_dot_product_attention(x, x, x, options);
  const std::vector<float> ones(n * dim, 1);
  const rapt::BackwardInputs inputs{.state = forward.state(),
                                    .d_output = rapt::TensorView(ones.data(), {n, dim})};
  rapt::BackwardRequest request;
  request.score_parameters = true;
  const rapt::Gradients gradients =
      rapt::scaled_dot_product_attention_backward(x, x, x, options, inputs, request);
  const double slope = gradients.d_score_parameters.values<double>()[0];
  const double difference =
      (plain_sum(numbers, steps, 0.501) - plain_sum(numbers, steps, 0.499)) / 0.002;
  std::printf("a struct: %.4f; its strength's gradient: %.3f, by a difference: %.3f\n",
              sum_of(forward.output), slope, difference);

  bool refused = false;
  try {
    graph.strength = -1;
    rapt::scaled_dot_product_attention(x, x, x, options);
  } catch (const rapt::Error& error) {
    refused = true;
    std::printf("%s\n", error.what());
  }
  return near(by_functions, expected) && near(sum_of(forward.output), expected) &&
                 near(slope, difference) && refused
             ? 0
             : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
