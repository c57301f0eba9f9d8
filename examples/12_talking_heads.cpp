// Talking heads: scores are mixed across heads before the softmax, weights after it.
//
//   S_b = sum_a before[a, b] query_a key_a^T / sqrt(d),   P_b = softmax(S_b)
//   output_c = sum_b after[b, c] P_b value_c
//
// (Shazeer, Lan, Cheng, Ding & Hou 2020, arXiv:2003.02436.) Written so, it needs the scores of all
// heads at once, n^2 numbers per head. But a sum of dot products is the dot product of longer rows:
//
//   S_b = [before[0, b] query_0 | before[1, b] query_1 | ...] [key_0 | key_1 | ...]^T / sqrt(d)
//
// All heads share one head of keys, [n, heads d], and one of values, [n, heads e]: the layout in
// which a model's projection leaves them; only the queries are copied. One call gives P_b value_c
// for all b and c, in O(n) memory. It costs `heads` times the products of plain attention. The n x
// n way multiplies less, but keeps O(n^2 heads) numbers; it is shown for comparison, with returned
// scores that are passed as the bias of a call whose scale is 0. No kernel saves both: none was
// needed yet. The exit status is 1 unless both ways agree.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>

#include "rapt/rapt.h"

namespace {

constexpr size_t kHeads = 4, kLength = 100, kDim = 8, kRow = kHeads * kDim;

// A tensor with size_t lengths, the type of the indices.
rapt::Tensor tensor(size_t heads, size_t rows, size_t columns) {
  return {rapt::DType::f64,
          {static_cast<int64_t>(heads), static_cast<int64_t>(rows), static_cast<int64_t>(columns)}};
}

rapt::Tensor waves(size_t rows, size_t columns, double step) {
  rapt::Tensor numbers = tensor(1, rows, columns);
  double angle = 0;
  for (double& number : numbers.values<double>()) number = std::sin(angle += step);
  return numbers;
}

// [kHeads, rows, columns]: sum_a mix[a, b] from[a] for each b.
rapt::Tensor mixed(const rapt::Tensor& from, const rapt::Tensor& mix) {
  rapt::Tensor to = rapt::Tensor::copy_of(from);
  const size_t numbers = to.values<double>().size() / kHeads;
  std::ranges::fill(to.values<double>(), 0);
  for (size_t a = 0; a < kHeads; ++a)
    for (size_t b = 0; b < kHeads; ++b)
      for (size_t e = 0; e < numbers; ++e)
        to.values<double>()[b * numbers + e] +=
            mix.values<double>()[a * kHeads + b] * from.values<double>()[a * numbers + e];
  return to;
}

}  // namespace

int main() try {
  // [1, kLength, kHeads kDim], as a projection returns them.
  const rapt::Tensor query = waves(kLength, kRow, 0.7), key = waves(kLength, kRow, 1.3);
  const rapt::Tensor value = waves(kLength, kRow, 2.9);
  const rapt::Tensor before = waves(kHeads, kHeads, 1), after = waves(kHeads, kHeads, 2);
  const double scale = 1 / std::sqrt(static_cast<double>(kDim));
  const rapt::Causal causal;

  // One call in O(n) memory: [kHeads (b), kLength, kHeads (c) kDim].
  rapt::Tensor queries = tensor(kHeads, kLength, kRow);
  for (size_t b = 0; b < kHeads; ++b)
    for (size_t i = 0; i < kLength; ++i)
      for (size_t e = 0; e < kRow; ++e)
        queries.values<double>()[(b * kLength + i) * kRow + e] =
            before.values<double>()[e / kDim * kHeads + b] * query.values<double>()[i * kRow + e];
  const rapt::AttentionResult parts =
      rapt::scaled_dot_product_attention(queries, key, value, {.scale = scale, .masks = {&causal}});

  rapt::Tensor output = tensor(1, kLength, kRow);
  std::ranges::fill(output.values<double>(), 0);
  for (size_t b = 0; b < kHeads; ++b)
    for (size_t i = 0; i < kLength; ++i)
      for (size_t e = 0; e < kRow; ++e)
        output.values<double>()[i * kRow + e] +=
            after.values<double>()[b * kHeads + e / kDim] *
            parts.output.values<double>()[(b * kLength + i) * kRow + e];

  // The n x n way. Scores are mixed before the mask, because the -inf of masked pairs cannot be
  // mixed.
  const auto heads = [](const rapt::Tensor& rows) {
    return rapt::TensorView(rows.values<double>().data(), {kLength, kHeads, kDim}).transposed(0, 1);
  };
  rapt::AttentionOptions wanted{.scale = scale};
  wanted.weights = rapt::WeightsRequest{.stage = rapt::WeightsStage::scores};
  const rapt::AttentionResult plain =
      rapt::scaled_dot_product_attention(heads(query), heads(key), heads(value), wanted);
  const rapt::Tensor scores = mixed(plain.weights, before);  // [kHeads, kLength, kLength]
  const rapt::AttentionResult normalized = rapt::scaled_dot_product_attention(
      heads(query), heads(key), heads(value),
      {.scale = 0, .masks = {&causal}, .bias = scores, .weights = rapt::WeightsRequest{}});
  const rapt::Tensor weights = mixed(normalized.weights, after);

  double furthest = 0;
  for (size_t i = 0; i < kLength; ++i)
    for (size_t e = 0; e < kRow; ++e) {
      double expected = 0;
      for (size_t j = 0; j < kLength; ++j)
        expected += weights.values<double>()[(e / kDim * kLength + i) * kLength + j] *
                    value.values<double>()[j * kRow + e];
      furthest = std::max(furthest, std::fabs(output.values<double>()[i * kRow + e] - expected));
    }
  std::printf("%zu heads that talk, %zu queries and keys\n", kHeads, kLength);
  std::printf("one call: %zu numbers beside query, key and value; by scores and weights: %zu\n",
              2 * kHeads * kLength * kRow, 4 * kHeads * kLength * kLength);
  std::printf("both ways agree to %.0e\n", furthest);
  // The rounding error of sums of 32 products per score and 400 weighted values per output, each at
  // most 1.
  return furthest < 1e-12 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
