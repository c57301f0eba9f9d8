// Tensors without elements and without memory. No pointer may be moved away from null; clang's
// sanitizer detects that (-fsanitize=pointer-overflow), g++'s does not.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rapt/mask/boolean.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "support/call.h"

namespace laws {
namespace {

// A null view of the shape, which has no elements, with strides as large as they come.
TensorView nothing(DType dtype, const Dims& dims) {
  const Dims strides(dims.size(), std::numeric_limits<int64_t>::max());
  return TensorView(nullptr, dtype, dims, strides, false);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(EmptyTensors, NoKeys) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor query = filled(dtype, {2, 3, 20, 4}, 1);
    const TensorView key = nothing(dtype, {2, 3, 0, 4}), value = nothing(dtype, {2, 3, 0, 5});
    const rapt::Boolean mask(nothing(DType::boolean, {2, 3, 20, 0}));
    const Tensor dense_mask(DType::boolean, {2, 3, 20, 0});  // null too, its strides are not 0
    const rapt::Boolean same_mask(dense_mask);
    AttentionOptions options;
    options.masks = {&mask, &same_mask};
    options.bias = nothing(dtype, {2, 3, 20, 0});
    options.weights.emplace();
    EXPECT_EQ(rapt::plan(query, key, value, options).allowed_scores, 0);
    const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
    EXPECT_TRUE(same_bits(got.output, filled(dtype, {2, 3, 20, 5}, 0)));
    EXPECT_TRUE(same_bits(got.statistic, filled(dtype, {2, 3, 20}, -kInfinity)));
    EXPECT_EQ(got.weights.count(), 0);
  }
}

TEST(EmptyTensors, NoQueries) {
  const Tensor key = filled(DType::f32, {2, 7, 4}, 1);
  const TensorView query = nothing(DType::f32, {2, 0, 4});
  const rapt::Boolean mask(nothing(DType::boolean, {2, 0, 7}));
  AttentionOptions options;
  options.masks = {&mask};
  options.bias = nothing(DType::f32, {2, 0, 7});
  options.weights.emplace();
  EXPECT_EQ(rapt::plan(query, key, key, options).allowed_scores, 0);
  EXPECT_EQ(scaled_dot_product_attention(query, key, key, options).output.count(), 0);
}

TEST(EmptyTensors, NoValueDimensions) {
  for (const int64_t k_len : {0, 7, 200}) {
    const Tensor query = filled(DType::f32, {2, 70, 4}, 1), key = filled(DType::f32, {k_len, 4}, 0);
    const float lse = std::log(static_cast<float>(k_len));  // all scores are 0
    const TensorView value = nothing(DType::f32, {2, k_len, 0});
    const rapt::Window window(150, 150);
    AttentionOptions options;
    const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
    EXPECT_EQ(got.output.count(), 0);
    for (const float x : got.statistic.values<float>()) EXPECT_FLOAT_EQ(x, lse);

    // The same into the caller's memory, with a mask: the output has no memory either.
    options.masks = {&window};
    Tensor statistic(DType::f32, {2, 70});
    std::vector<std::byte> workspace(rapt::workspace_bytes(query, key, value, options));
    scaled_dot_product_attention(query, key, value, options,
                                 {{nothing(DType::f32, {2, 70, 0}), statistic}}, workspace);
    EXPECT_TRUE(
        same_bits(statistic, scaled_dot_product_attention(query, key, value, options).statistic));
  }
}

TEST(EmptyTensors, NoHeads) {
  const TensorView x = nothing(DType::f32, {0, 3, 7, 4});
  const rapt::Lengths lengths(nothing(DType::i64, {0, 3}));
  AttentionOptions options;
  options.masks = {&lengths};
  EXPECT_EQ(rapt::plan(x, x, x, options).allowed_scores, 0);
  EXPECT_EQ(scaled_dot_product_attention(x, x, x, options).output.count(), 0);
}

TEST(EmptyTensors, MergeWithoutValueDimensions) {
  Tensor a = filled(DType::f32, {2, 70}, 0);
  const Tensor b = filled(DType::f32, {2, 70}, 0);
  const TensorView output = nothing(DType::f32, {2, 70, 0});
  rapt::merge({output, a}, {output, b}, rapt::kSoftmax);
  for (const float lse : a.values<float>()) EXPECT_FLOAT_EQ(lse, std::log(2.0f));
  // No rows at all.
  const TensorView no_rows = nothing(DType::f32, {2, 0, 5}), no_lse = nothing(DType::f32, {2, 0});
  EXPECT_NO_THROW(rapt::merge({no_rows, no_lse}, {no_rows, no_lse}, rapt::kSoftmax));
}

}  // namespace
}  // namespace laws
