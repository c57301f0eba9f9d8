// Shows masks, how they combine, and how many tiles they save according to plan().
//
// Two sequences in one batch, the second one padded. A mask decides for whole tiles first: tiles in
// which nothing is allowed are not computed.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kBatch = 2, kHeads = 4, kLength = 2048, kDim = 64;

void show(const char* name, const rapt::TensorView& x, const rapt::AttentionOptions& options) {
  const rapt::Plan plan = rapt::plan(x, x, x, options);
  std::printf("%-28s %5lld whole  %4lld cut  %5lld skipped  %5.1f %% of the scores allowed\n", name,
              static_cast<long long>(plan.tiles_computed),
              static_cast<long long>(plan.tiles_partial),
              static_cast<long long>(plan.tiles_skipped),
              100.0 * static_cast<double>(plan.allowed_scores) /
                  static_cast<double>(kBatch * kHeads * kLength * kLength));
}

}  // namespace

int main() try {
  // [kBatch, kHeads, kLength, kDim], query, key and value at once.
  std::vector<float> numbers(kBatch * kHeads * kLength * kDim);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = std::sin(static_cast<float>(i));

  const int64_t key_counts[kBatch] = {kLength, 300};
  // The contents of the padding do not matter, not even NaN, which the padding of the last head
  // gets here.
  for (size_t i = (kBatch * kHeads - 1) * kLength * kDim + 300 * kDim; i < numbers.size(); ++i)
    numbers[i] = NAN;
  const rapt::TensorView x(numbers.data(), {kBatch, kHeads, kLength, kDim});

  const rapt::Causal causal;                                            // not to the future
  const rapt::Window window(255, -1);                                   // at most 255 keys back
  const rapt::Lengths lengths(rapt::TensorView(key_counts, {kBatch}));  // not to the padding

  show("none", x, {});
  show("causal", x, {.masks = {&causal}});
  show("lengths", x, {.masks = {&lengths}});
  show("causal, lengths", x, {.masks = {&causal, &lengths}});
  show("causal, window", x, {.masks = {&causal, &window}});
  show("causal, window, lengths", x, {.masks = {&causal, &window, &lengths}});

  // The masks of a call are combined by "and". For the rest there are And, Or and Not, or a text.
  const rapt::Prefix prefix(256);  // an instruction that every query may attend to
  const rapt::Or prefix_lm{&causal, &prefix};
  show("causal or prefix, lengths", x, {.masks = {&prefix_lm, &lengths}});
  const std::unique_ptr<rapt::Mask> far = rapt::make_mask("causal & !window(255,0)");
  show(rapt::to_string(*far).c_str(), x, {.masks = {far.get()}});

  const rapt::AttentionResult result =
      rapt::scaled_dot_product_attention(x, x, x, {.masks = {&causal, &lengths}});
  const auto output = result.output.values<float>();  // [kBatch, kHeads, kLength, kDim]
  size_t not_a_number = 0;  // NaN in the rows of queries outside the padding
  for (int64_t head = 0; head < kBatch * kHeads; ++head)
    for (int64_t e = 0; e < key_counts[head / kHeads] * kDim; ++e)
      not_a_number += std::isnan(output[static_cast<size_t>(head * kLength * kDim + e)]);
  std::printf("NaN in the padding: %zu of them in the output\n", not_a_number);
  return not_a_number == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
