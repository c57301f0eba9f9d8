// Heads that are columns of one wide tensor, whose rows lie far apart, have the bits of dense
// heads.
#include <gtest/gtest.h>

#include "gradients/gradient_problems.h"
#include "rapt/mask/causal.h"
#include "rapt/rotary.h"
#include "support/sanitizers.h"

namespace laws {
namespace {

// Query, key and value side by side in rows of 1,152 bytes (16-bit elements) and more, which are
// far apart (attention/plan/tiling.h), and copies of their heads.
struct SplitHeads {
  static constexpr int64_t kHeads = 8, kDims = 24;
  Tensor projections, gradients;
  TensorView query, key, value, d_query, d_key, d_value;
  Tensor dense_query, dense_key, dense_value;

  SplitHeads(Random& random, DType dtype, int64_t batch, int64_t length)
      : projections(random_normal(random, dtype, {batch, length, 3 * kHeads * kDims})),
        gradients(dtype, {batch, length, 3 * kHeads * kDims}) {
    const auto part = [](const TensorView& all, int64_t nth) {
      return rapt::split_heads(all.slice(-1, nth * kHeads * kDims, (nth + 1) * kHeads * kDims),
                               kHeads);
    };
    query = part(projections.view(), 0), key = part(projections.view(), 1);
    value = part(projections.view(), 2);
    const TensorView targets = gradients;
    d_query = part(targets, 0), d_key = part(targets, 1), d_value = part(targets, 2);
    dense_query = Tensor::copy_of(query), dense_key = Tensor::copy_of(key);
    dense_value = Tensor::copy_of(value);
  }
};

void expect_bits_of_dense_heads(Random& random, DType dtype, int64_t length,
                                const AttentionOptions& options) {
  const int64_t batch = length < 100 ? 2 : 1;
  SplitHeads heads(random, dtype, batch, length);
  AttentionResult dense =
      scaled_dot_product_attention(heads.dense_query, heads.dense_key, heads.dense_value, options);
  const AttentionResult split =
      scaled_dot_product_attention(heads.query, heads.key, heads.value, options);
  EXPECT_TRUE(same_bits(split.output, dense.output));
  EXPECT_TRUE(same_bits(split.statistic, dense.statistic));
  // d_output is split, too.
  const Tensor joined =
      random_normal(random, dtype, {batch, length, SplitHeads::kHeads * 4 * SplitHeads::kDims});
  const TensorView d_split =
      rapt::split_heads(joined.view(), 4 * SplitHeads::kHeads).slice(-3, 3, 3 + SplitHeads::kHeads);
  const Tensor d_dense = Tensor::copy_of(d_split);
  const rapt::Gradients expected =
      scaled_dot_product_attention_backward(heads.dense_query, heads.dense_key, heads.dense_value,
                                            options, {.state = dense.state(), .d_output = d_dense});
  std::vector<std::byte> workspace(
      rapt::backward_workspace_bytes(heads.query, heads.key, heads.value, options));
  scaled_dot_product_attention_backward(
      heads.query, heads.key, heads.value, options, {.state = dense.state(), .d_output = d_split},
      {}, {.d_query = heads.d_query, .d_key = heads.d_key, .d_value = heads.d_value}, workspace);
  EXPECT_TRUE(same_bits(Tensor::copy_of(heads.d_query), expected.d_query));
  EXPECT_TRUE(same_bits(Tensor::copy_of(heads.d_key), expected.d_key));
  EXPECT_TRUE(same_bits(Tensor::copy_of(heads.d_value), expected.d_value));
}

TEST(SplitHeads, HaveTheBitsOfDenseHeads) {
  Random random(base_seed());
  const rapt::Causal causal;
  const rapt::Entmax15 entmax;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const int64_t length : {5, 40, 300, 1100}) {
      if (RAPT_SANITIZED && length > 100) continue;  // minutes of arithmetic
      SCOPED_TRACE(testing::Message() << rapt::name_of(dtype) << " " << length);
      expect_bits_of_dense_heads(random, dtype, length, {});
      if (length == 1100) continue;
      expect_bits_of_dense_heads(random, dtype, length, {.masks = {&causal}});
      AttentionOptions sparse;
      sparse.normalizer = entmax;
      expect_bits_of_dense_heads(random, dtype, length, sparse);
    }
}

}  // namespace
}  // namespace laws
