// Shows normalisers of your own: squared scores divided by their sum, by two functions; and a
// struct that needs the whole row first: softmax without the weights below a floor.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <vector>

#include "rapt/rapt.h"

namespace {
constexpr int64_t n = 400, dim = 16;

// weight_j = p_j / (sum of the p kept) if p_j = softmax(s)_j is at least `floor`, else 0. The
// hooks are those of rapt/normalizer/normalizer.h, over the element type: collect() gets all blocks
// of keys, solve() computes the row's numbers, and apply() gets the blocks again.
struct FlooredSoftmax {
  double floor = 0.01;

  static const rapt::Declaration kDeclaration;
  static constexpr bool kWholeRow = true;
  // Per query: the largest score m so far, the sum of e^(score - m), and the sum of the kept ones.
  static constexpr int kStateRows = 3;

  template <class E>
  void begin(rapt::Tile<E>& t) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i)
      largest(t)[i] = -std::numeric_limits<E>::infinity(), sum(t)[i] = kept(t)[i] = 0;
  }
  template <class E>
  void collect(rapt::Tile<E>& t) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      const E before = largest(t)[i];
      largest(t)[i] = std::max(before, t.block_max[i]);
      if (largest(t)[i] > before) sum(t)[i] *= std::exp(before - largest(t)[i]);
    }
    for_each(t, [&](E& score, int64_t i) {
      if (score > -std::numeric_limits<E>::infinity()) sum(t)[i] += std::exp(score - largest(t)[i]);
    });
  }
  template <class E>
  bool solve(rapt::Tile<E>&) const noexcept {
    return false;  // no row needs another pass
  }
  template <class E>
  void apply(rapt::Tile<E>& t) const noexcept {
    keep(t);
    for_each(t, [&](E& weight, int64_t i) { kept(t)[i] += weight; });
  }
  template <class E>
  void finish(rapt::Tile<E>& t, const rapt::Finish<E>& result) const noexcept {
    for (int64_t i = 0; i < t.queries; ++i) {
      result.inverse[i] = 1 / kept(t)[i];
      if (result.statistic) result.statistic[i] = 0;
    }
  }
  // Final weights, if they are returned; the state is that after finish().
  template <class E>
  void weights(rapt::Tile<E>& t) const noexcept {
    keep(t);
    for_each(t, [&](E& weight, int64_t i) { weight /= kept(t)[i]; });
  }

 private:
  template <class E>
  static E* largest(rapt::Tile<E>& t) noexcept {
    return t.state;
  }
  template <class E>
  static E* sum(rapt::Tile<E>& t) noexcept {
    return t.state + t.queries;
  }
  template <class E>
  static E* kept(rapt::Tile<E>& t) noexcept {
    return t.state + 2 * t.queries;
  }

  template <class E, class Visit>
  static void for_each(rapt::Tile<E>& t, const Visit& visit) noexcept {
    for (int64_t j = 0; j < t.keys; ++j)
      for (int64_t i = 0; i < t.query_positions.count; ++i) visit(t.scores[j * t.queries + i], i);
  }
  template <class E>
  void keep(rapt::Tile<E>& t) const noexcept {
    for_each(t, [&](E& score, int64_t i) {
      // Masked pairs have a score of -inf.
      const E p = score > -std::numeric_limits<E>::infinity()
                      ? std::exp(score - largest(t)[i]) / sum(t)[i]
                      : 0;
      score = p < static_cast<E>(floor) ? 0 : p;
    });
  }
};
constexpr rapt::Parameter kParameters[] = {rapt::parameter<FlooredSoftmax, &FlooredSoftmax::floor>(
    "floor", "the least weight that stays", {0, 0.5})};
const rapt::Declaration FlooredSoftmax::kDeclaration = {
    "floored_softmax", "softmax without its small weights", "this example", kParameters};

// The largest difference between the weights of a call and those that `weigh` computes from a row.
template <class Weigh>
double largest_difference(const rapt::TensorView& x, rapt::AttentionOptions options,
                          const Weigh& weigh) {
  options.weights.emplace();
  const rapt::AttentionResult got = rapt::scaled_dot_product_attention(x, x, x, options);
  options.weights->stage = rapt::WeightsStage::scores;
  const rapt::AttentionResult scores = rapt::scaled_dot_product_attention(x, x, x, options);
  double largest = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float* const row = scores.weights.values<float>().data() + i * n;
    std::vector<double> weights(row, row + i + 1);  // causal: the keys up to the query
    weigh(weights);
    for (int64_t d = 0; d < dim; ++d) {
      double output = 0;
      for (int64_t j = 0; j <= i; ++j)
        output += weights[static_cast<size_t>(j)] * static_cast<const float*>(x.data)[j * dim + d];
      largest =
          std::max(largest, std::fabs(output - double{got.output.values<float>()[i * dim + d]}));
    }
    for (int64_t j = 0; j < n; ++j) {
      const double expected = j <= i ? weights[static_cast<size_t>(j)] : 0;
      largest =
          std::max(largest, std::fabs(expected - double{got.weights.values<float>()[i * n + j]}));
    }
  }
  return largest;
}

void divide_by_sum(std::vector<double>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  for (double& w : weights) w /= sum;
}
}  // namespace

int main() try {
  std::vector<float> numbers(n * dim);  // query, key and value at once
  for (int64_t i = 0; i < n * dim; ++i) numbers[i] = std::sin(static_cast<float>(i * i % 1009));
  const rapt::TensorView x(numbers.data(), {n, dim});
  const rapt::Causal causal;
  rapt::AttentionOptions options;
  options.masks = {&causal};

  // The weight of a score before it is divided by the sum of its row, and the derivative.
  const rapt::CustomShares squares(
      "squares", [](auto s, const rapt::QueryPlace&) { return s * s; },
      [](auto s, const rapt::QueryPlace&) { return 2 * s; });
  options.normalizer = squares;
  const double of_squares = largest_difference(x, options, [](std::vector<double>& row) {
    for (double& s : row) s *= s;
    divide_by_sum(row);
  });
  std::printf("squares: within %.1e of plain loops\n", of_squares);

  // Merges results over two halves of the keys.
  options.masks = {};
  rapt::AttentionResult first = rapt::scaled_dot_product_attention(x, x.slice(0, 0, n / 2),
                                                                   x.slice(0, 0, n / 2), options),
                        second = rapt::scaled_dot_product_attention(x, x.slice(0, n / 2, n),
                                                                    x.slice(0, n / 2, n), options);
  const rapt::AttentionResult whole = rapt::scaled_dot_product_attention(x, x, x, options);
  rapt::merge(first.state(), second.state(), squares);
  double of_merge = 0;
  for (int64_t i = 0; i < n * dim; ++i)
    of_merge = std::max(of_merge, std::fabs(double{first.output.values<float>()[i]} -
                                            double{whole.output.values<float>()[i]}));
  std::printf("merged from two halves: within %.1e of the whole\n", of_merge);

  options.masks = {&causal};
  const FlooredSoftmax floored;
  options.normalizer = floored;
  const double of_floored = largest_difference(x, options, [&](std::vector<double>& row) {
    for (double& s : row) s = std::exp(s);
    divide_by_sum(row);
    for (double& p : row) p = p < floored.floor ? 0 : p;
    divide_by_sum(row);
  });
  std::printf("floored softmax: within %.1e of plain loops\n", of_floored);
  // The rounding error of sums of 400 f32 numbers, 6e-8 of each.
  return of_squares < 1e-5 && of_merge < 1e-5 && of_floored < 1e-5 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
