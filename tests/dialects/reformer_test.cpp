// One round of LSH attention beside reformer-pytorch, with the rotations that the package drew: as
// many buckets as chunks, and its only round counts each pair once.
#include <gtest/gtest.h>

#include <cstdint>

#include "rapt/attention.h"
#include "rapt/mask/causal.h"
#include "rapt/method/lsh.h"
#include "recorded_reformer.h"

namespace {

using rapt::TensorView;

constexpr int64_t kRows = 32, kHeadDim = 4, kChunk = 4;

void expect_recorded(const float (&recorded)[kRows * kHeadDim], bool is_causal) {
  const TensorView rows(recorded_reformer::rows, {kRows, kHeadDim}),
      value(recorded_reformer::value, {kRows, kHeadDim});
  rapt::Lsh lsh(1);
  lsh.chunk = kChunk, lsh.buckets = kRows / kChunk;
  lsh.rotations = TensorView(recorded_reformer::rotations, {1, kHeadDim, lsh.buckets / 2});
  const rapt::Causal causal;
  rapt::AttentionOptions options{.method = &lsh};
  if (is_causal) options.masks = {&causal};
  const rapt::AttentionResult result = scaled_dot_product_attention(rows, rows, value, options);
  for (int64_t i = 0; i < kRows * kHeadDim; ++i)
    EXPECT_NEAR(result.output.values<float>()[i], recorded[i], 1e-5) << i;
}

TEST(Reformer, OneRoundAgrees) { expect_recorded(recorded_reformer::all_pairs, false); }
TEST(Reformer, OneCausalRoundAgrees) { expect_recorded(recorded_reformer::causal, true); }

}  // namespace
