// Rows of very many keys: the error of the sums grows with the number of blocks, not of keys.
#include <gtest/gtest.h>

#include "support/call.h"

namespace laws {
namespace {

// All keys and all values are one row, repeated by a stride of 0: the mean of equal numbers is that
// number, and equal roundings add up instead of cancelling. With n keys in blocks of b, an output
// is a sum of b products and then of n / b blocks; each addition rounds by 2^-24, and so do the
// sum's inverse and the product with it. One running sum over a million keys is wrong by 4 %.
TEST(LongRows, MeanOfEqualValues) {
  Random random(base_seed());
  for (const int64_t k_len : {int64_t{1} << 16, int64_t{1} << 20})
    for (const int64_t head_dim : {1, 2}) {
      SCOPED_TRACE(std::to_string(k_len) + " keys, head_dim " + std::to_string(head_dim));
      const Tensor query = random_normal(random, DType::f32, {1, head_dim});
      const Tensor row = random_normal(random, DType::f32, {1, head_dim});
      const Tensor one_value = filled(DType::f32, {1, 1}, 0.1);
      TensorView key = row, value = one_value;
      key.shape[0] = value.shape[0] = k_len;
      key.strides[0] = value.strides[0] = 0;
      const int64_t block = rapt::plan(query, key, value).block_keys;
      const double additions = static_cast<double>(block + k_len / block);
      const double expected = get(one_value, Dims{0, 0});
      const AttentionResult got = scaled_dot_product_attention(query, key, value);
      EXPECT_NEAR(get(got.output, Dims{0, 0}), expected, expected * (additions + 2) * 0x1p-24);
    }
}

}  // namespace
}  // namespace laws
