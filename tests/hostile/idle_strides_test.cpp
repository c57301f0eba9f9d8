// The stride of a dimension of length 1 is never used, so it may be anything.
#include <gtest/gtest.h>

#include <limits>

#include "rapt/mask/boolean.h"
#include "rapt/mask/lengths.h"
#include "support/call.h"

namespace laws {
namespace {

// The same elements, with the largest strides where no element needs one.
TensorView with_idle_strides(TensorView view) {
  for (int i = 0; i < view.rank; ++i)
    if (view.shape[i] == 1) view.strides[i] = std::numeric_limits<int64_t>::max();
  return view;
}

TEST(IdleStrides, OfSingleRowsAndDimensions) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t q_len : {1, 20})
      for (const int64_t k_len : {1, 70})
        for (const int64_t head_dim : {1, 17})
          for (const int64_t value_dim : {1, 17})
            for (const int64_t heads : {1, 2}) {
              SCOPED_TRACE(to_string({heads, q_len, k_len, head_dim, value_dim}));
              const Tensor q = random_normal(random, dtype, {1, heads, q_len, head_dim});
              const Tensor k = random_normal(random, dtype, {1, 1, k_len, head_dim});
              const Tensor v = random_normal(random, dtype, {1, heads, k_len, value_dim});
              const Tensor bias = random_normal(random, dtype, {1, q_len, k_len});
              const Tensor allowed = filled(DType::boolean, {1, 1, k_len}, 1);
              const Tensor lengths = filled(DType::i64, {1}, static_cast<double>(k_len));
              const rapt::Boolean dense_mask(allowed), mask(with_idle_strides(allowed));
              const rapt::Lengths dense_lengths(lengths), idle_lengths(with_idle_strides(lengths));

              AttentionOptions options;
              options.weights.emplace();
              options.masks = {&dense_mask, &dense_lengths};
              options.bias = bias;
              const AttentionResult expected = scaled_dot_product_attention(q, k, v, options);

              options.masks = {&mask, &idle_lengths};
              options.bias = with_idle_strides(bias);
              const TensorView query = with_idle_strides(q), key = with_idle_strides(k),
                               value = with_idle_strides(v);
              Tensor output(dtype, expected.output.dims()), lse(dtype, expected.statistic.dims()),
                  weights(dtype, expected.weights.dims());
              std::vector<std::byte> workspace(rapt::workspace_bytes(query, key, value, options));
              scaled_dot_product_attention(
                  query, key, value, options,
                  {{with_idle_strides(output), with_idle_strides(lse)}, with_idle_strides(weights)},
                  workspace);
              EXPECT_TRUE(same_bits(output, expected.output));
              EXPECT_TRUE(same_bits(lse, expected.statistic));
              EXPECT_TRUE(same_bits(weights, expected.weights));
            }
}

}  // namespace
}  // namespace laws
