// Shows documents packed into one row: each attends to itself only, as in training without padding.
//
// Three documents of different lengths lie one after the other. If the call knows where each begins
// (flash-attention: cu_seqlens), it does not compute tiles between documents. There are two ways to
// pass this:
//
//   a mask          one row that holds documents: positions count from the start of the row, and
//                   biases, weights, maps and masks that read tensors go with it. The result is
//                   that of one call per document up to rounding: a row's keys are summed in
//                   blocks, and their boundaries depend on where the document begins.
//   options.packed  a batch of sequences of different lengths: positions and anchors count from
//                   each one's own start, also if it has more keys than queries (decoding,
//                   Anchor::bottom_right). The bits are those of one call per document.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "rapt/rapt.h"

int main() try {
  constexpr int64_t kDocuments = 3, kHeads = 2, kDim = 64;
  const int64_t starts[kDocuments + 1] = {0, 700, 1100, 3000};
  const int64_t n = starts[kDocuments];

  std::vector<float> numbers(static_cast<size_t>(kHeads * n * kDim));
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));
  const rapt::TensorView x(numbers.data(), {kHeads, n, kDim});  // query, key and value at once

  const rapt::Causal causal;
  const rapt::TensorView begins(starts, {kDocuments + 1});
  const rapt::DocumentsByStarts documents(begins);
  const auto masked = rapt::scaled_dot_product_attention(x, x, x, {.masks = {&documents, &causal}});
  const rapt::Plan plan = rapt::plan(x, x, x, {.masks = {&documents, &causal}});
  std::printf("%lld documents in one row: %lld tiles computed, %lld skipped\n",
              static_cast<long long>(kDocuments),
              static_cast<long long>(plan.tiles_computed + plan.tiles_partial),
              static_cast<long long>(plan.tiles_skipped));

  // The same by ids, which may stand in any order and differ between batches.
  std::vector<int64_t> ids(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i)
    ids[static_cast<size_t>(i)] = std::upper_bound(starts, starts + kDocuments, i) - starts;
  const rapt::Documents by_ids(rapt::TensorView(ids.data(), {n}));
  const auto same = rapt::scaled_dot_product_attention(x, x, x, {.masks = {&by_ids, &causal}});
  const auto output = masked.output.values<float>();  // [kHeads, n, kDim]
  const auto other = same.output.values<float>();
  const bool same_bits = std::equal(output.begin(), output.end(), other.begin());
  std::printf("by ids: %s\n", same_bits ? "the same bits" : "NOT THE SAME");

  // The same as packed sequences: the causal mask of each document is its own.
  const auto packed = rapt::scaled_dot_product_attention(
      x, x, x, {.masks = {&causal}, .packed = {.query_starts = begins}});
  const auto sequences = packed.output.values<float>();  // [kHeads, n, kDim]

  // One call per document, on views of the same memory.
  float largest = 0;
  bool packed_bits = true;
  for (int64_t d = 0; d < kDocuments; ++d) {
    const rapt::TensorView own = x.slice(1, starts[d], starts[d + 1]);
    const auto alone = rapt::scaled_dot_product_attention(own, own, own, {.masks = {&causal}});
    const size_t count = static_cast<size_t>((starts[d + 1] - starts[d]) * kDim);
    for (int64_t head = 0; head < kHeads; ++head) {
      const size_t first = static_cast<size_t>((head * n + starts[d]) * kDim);
      const auto expected =  // [length, kDim]
          alone.output.values<float>().subspan(static_cast<size_t>(head) * count, count);
      for (size_t e = 0; e < count; ++e)
        largest = std::max(largest, std::fabs(output[first + e] - expected[e]));
      packed_bits &= std::memcmp(&sequences[first], expected.data(), count * sizeof(float)) == 0;
    }
  }
  std::printf("largest difference to separate calls: %.1e\n", static_cast<double>(largest));
  std::printf("as packed sequences: %s as separate calls\n",
              packed_bits ? "the same bits" : "NOT THE SAME");
  return same_bits && packed_bits && largest < 1e-5f ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
