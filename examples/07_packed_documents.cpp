// Shows documents packed into one row: each attends to itself only, as in training without padding.
//
// Three documents of different lengths lie one behind the other. By where each begins
// (flash-attention calls that cu_seqlens) the tiles between documents are not even computed. The
// result is that of one call per document, but for rounding: a row's keys are summed in blocks,
// which begin elsewhere when the document does.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
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
  const rapt::DocumentsByStarts documents(rapt::TensorView(starts, {kDocuments + 1}));
  const auto packed = rapt::scaled_dot_product_attention(x, x, x, {.masks = {&documents, &causal}});
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
  const auto output = packed.output.values<float>();  // [kHeads, n, kDim]
  const auto other = same.output.values<float>();
  const bool same_bits = std::equal(output.begin(), output.end(), other.begin());
  std::printf("by ids: %s\n", same_bits ? "the same bits" : "NOT THE SAME");

  // One call per document, on views of the same memory.
  float largest = 0;
  for (int64_t d = 0; d < kDocuments; ++d) {
    const rapt::TensorView own = x.slice(1, starts[d], starts[d + 1]);
    const auto alone = rapt::scaled_dot_product_attention(own, own, own, {.masks = {&causal}});
    const auto expected = alone.output.values<float>();  // [kHeads, length, kDim]
    const int64_t length = starts[d + 1] - starts[d];
    for (int64_t head = 0; head < kHeads; ++head)
      for (int64_t e = 0; e < length * kDim; ++e)
        largest = std::max(
            largest, std::fabs(output[static_cast<size_t>((head * n + starts[d]) * kDim + e)] -
                               expected[static_cast<size_t>(head * length * kDim + e)]));
  }
  std::printf("largest difference to separate calls: %.1e\n", static_cast<double>(largest));
  return same_bits && largest < 1e-5f ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
