// Output, lse and weights against the reference, over random problems and over every boundary.
#include <gtest/gtest.h>

#include <algorithm>

#include "check/draw/sizes.h"
#include "check/problem/parse_masks.h"
#include "check/tolerance/tolerance.h"
#include "support/call.h"

namespace laws {
namespace {

// The case through its strided views, all results wanted, against the reference.
void expect_accurate(const Case& c) {
  AttentionOptions options = c.options;
  if (c.bias.defined()) options.bias = c.strided_bias;
  options.weights.emplace();
  TensorView views[3] = {c.strided_query, c.strided_key, c.strided_value};
  const Side* sides[3] = {&c.descriptor.query, &c.descriptor.key, &c.descriptor.value};
  for (int i = 0; i < 3; ++i)
    if (sides[i]->repeated >= 0) views[i].strides[sides[i]->repeated] = 0;
  const AttentionResult got = scaled_dot_product_attention(views[0], views[1], views[2], options);
  const Expectations expected = expectations(c.for_reference());

  Dims shape = c.descriptor.leading;
  shape.push_back(c.descriptor.q_len);
  EXPECT_EQ(to_string(shape),
            to_string(Dims(got.statistic.dims().begin(), got.statistic.dims().end())));
  shape.push_back(c.descriptor.k_len);
  EXPECT_EQ(to_string(shape),
            to_string(Dims(got.weights.dims().begin(), got.weights.dims().end())));
  shape.back() = c.descriptor.value_dim;
  EXPECT_EQ(to_string(shape), to_string(Dims(got.output.dims().begin(), got.output.dims().end())));
  EXPECT_TRUE(met_by(expected.output, values_of(got.output), "output"));
  EXPECT_TRUE(met_by(expected.lse, values_of(got.statistic), "lse"));
  EXPECT_TRUE(met_by(expected.weights, values_of(got.weights), "weights"));
}

TEST(Accuracy, RandomProblems) {
  const size_t before = distinct_problems();
  for_problems(1200, {}, [](const Case& c, Random&) { expect_accurate(c); });
  // Checks that the generator does not repeat problems.
  EXPECT_GE(distinct_problems() - before, static_cast<size_t>(problem_count(1200)) * 95 / 100);
}

// A plain problem of the given sizes.
Descriptor bare(DType dtype, int64_t q_len, int64_t k_len, int64_t head_dim, int64_t value_dim) {
  Descriptor p;
  p.seed = base_seed() + static_cast<uint64_t>(q_len * 1009 + k_len * 31 + head_dim);
  p.dtype = dtype;
  p.q_len = q_len;
  p.k_len = k_len;
  p.head_dim = head_dim;
  p.value_dim = value_dim;
  return p;
}

Descriptor with_mask(Descriptor p, const std::string& text) {
  check::Scanner in(text);
  p.masks = check::parse_masks(in, p);
  return p;
}

// Every problem of a sweep, or an even share of them as problem_count() says.
void expect_accurate(const Descriptor& p) {
  static int64_t asked = 0;
  const int64_t share = problem_count(100), before = asked++;
  if (asked * share / 100 == before * share / 100) return;
  const Case c(p);
  SCOPED_TRACE(to_string(p));
  expect_accurate(c);
}

TEST(Accuracy, EveryHeadDim) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t d : kHeadDims) {
      expect_accurate(bare(dtype, 5, 9, d, d));
      expect_accurate(bare(dtype, 17, 66, d, 3));
      expect_accurate(bare(dtype, 3, 19, 6, d));
    }
}

TEST(Accuracy, EveryLength) {
  for (const int64_t n : kLengths) {
    expect_accurate(bare(DType::f32, n, 40, 9, 17));
    expect_accurate(bare(DType::f32, 7, n, 16, 5));
    expect_accurate(bare(DType::f64, 7, n, 3, 2));
    expect_accurate(with_mask(bare(DType::f32, n, n, 8, 8), "causal"));
  }
}

// One below, at and above the tile and the block that the library says it uses.
TEST(Accuracy, TileAndBlockBoundaries) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t d : {1, 16, 64, 128, 256}) {
      const Descriptor shape = bare(dtype, 200, 700, d, d);
      const Tensor q(dtype, {shape.q_len, d}), k(dtype, {shape.k_len, d});
      const rapt::Plan plan = rapt::plan(q, k, k);
      ASSERT_GT(plan.tile_queries, 0);
      ASSERT_GT(plan.block_keys, 0);
      for (const int64_t beside : {-1, 0, 1}) {
        expect_accurate(bare(dtype, plan.tile_queries + beside, 33, d, 8));
        expect_accurate(bare(dtype, 2 * plan.tile_queries + beside, 20, d, 3));
        expect_accurate(bare(dtype, 9, plan.block_keys + beside, d, 8));
        expect_accurate(bare(dtype, 4, 2 * plan.block_keys + beside, d, d));
        expect_accurate(bare(dtype, 3, 5 * plan.block_keys + beside, d, 4));
        expect_accurate(with_mask(bare(dtype, 150, plan.block_keys * 2 + beside, 8, 8),
                                  "window(" + std::to_string(plan.block_keys + beside) + ",0)"));
      }
    }
}

// PyTorch #127055: a whole block of keys masked for some rows gave NaN (640 keys, a window).
TEST(Accuracy, reg_window_block_masked) {
  expect_accurate(with_mask(bare(DType::f32, 640, 640, 16, 16), "window(20,0)"));
}

// One wrong row in ten thousand must show: every row is compared, not a mean.
TEST(Accuracy, reg_single_bad_row) {
  const Case c(bare(DType::f32, 600, 30, 4, 4));
  const Expectations expected = expectations(c.for_reference());
  std::vector<double> output = values_of(attend(c).output);
  ASSERT_TRUE(met_by(expected.output, output, "output"));
  output[1201] += 1e-4;
  EXPECT_FALSE(met_by(expected.output, output, "output"));
}

// The reference itself: float, double and long double agree to within their precision.
TEST(Accuracy, ReferenceConverges) {
  const Case c(bare(DType::f64, 9, 33, 7, 5));
  const auto wide = attention<long double>(c.for_reference());
  const auto middle = attention<double>(c.for_reference());
  const auto narrow = attention<float>(c.for_reference());
  for (size_t i = 0; i < wide.output.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(wide.output[i]), middle.output[i], 1e-14);
    EXPECT_NEAR(middle.output[i], narrow.output[i], 1e-5);
  }
}

}  // namespace
}  // namespace laws
