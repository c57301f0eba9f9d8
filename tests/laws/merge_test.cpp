// merge(): results over parts of the keys become the result over all of them.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "check/tolerance/tolerance.h"
#include "rapt/mask/causal.h"
#include "support/call.h"

namespace laws {
namespace {

AttentionResult copy_of(const AttentionResult& r) {
  AttentionResult copy;
  copy.output = Tensor::copy_of(r.output);
  copy.statistic = Tensor::copy_of(r.statistic);
  return copy;
}

AttentionResult merged(const AttentionResult& a, const AttentionResult& b) {
  AttentionResult into = copy_of(a);
  AttentionResult from = copy_of(b);
  rapt::merge(into.state(), from.state(), rapt::kSoftmax);
  return into;
}

// The case's keys [begin, end) alone.
AttentionResult part(const Case& c, int64_t begin, int64_t end) {
  const TensorView key = c.key.view().slice(-2, begin, end);
  const TensorView value = c.value.view().slice(-2, begin, end);
  return scaled_dot_product_attention(c.query, key, value, c.options);
}

void expect_whole(const AttentionResult& got, const Case& c) {
  const Expectations truth = expectations(c.for_reference());
  // Each part and the merge itself may take a budget.
  EXPECT_TRUE(met_by(truth.output, values_of(got.output), "output", 2));
  EXPECT_TRUE(met_by(truth.lse, values_of(got.statistic), "lse", 2));
}

TEST(Merge, PartsMakeTheWhole) {
  for_problems(80, unmasked(), [](const Case& c, Random& random) {
    const int64_t n = c.descriptor.k_len;
    const int64_t a = random.between(0, n), b = random.between(a, n);
    const AttentionResult first = part(c, 0, a), second = part(c, a, b), third = part(c, b, n);
    expect_whole(merged(merged(first, second), third), c);
    expect_whole(merged(first, merged(second, third)), c);
    expect_whole(merged(merged(third, first), second), c);
  });
}

TEST(Merge, Commutes) {
  for_problems(30, unmasked(), [](const Case& c, Random& random) {
    const int64_t at = random.between(0, c.descriptor.k_len);
    const AttentionResult a = part(c, 0, at), b = part(c, at, c.descriptor.k_len);
    EXPECT_TRUE(same_results(merged(a, b), merged(b, a)));
  });
}

TEST(Merge, EmptySideTakesTheOthersBits) {
  for_problems(30, unmasked(), [](const Case& c, Random&) {
    const AttentionResult whole = attend(c), nothing = part(c, 0, 0);
    EXPECT_TRUE(same_results(merged(whole, nothing), whole));
    EXPECT_TRUE(same_results(merged(nothing, whole), whole));
    EXPECT_TRUE(same_results(merged(nothing, nothing), nothing));
  });
}

TEST(Merge, FarApartTakesTheLargerSide) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    AttentionResult a, b;
    a.output = filled(dtype, {2, 3}, 5);
    a.statistic = filled(dtype, {2}, 3e4);
    b.output = filled(dtype, {2, 3}, 7);
    b.statistic = filled(dtype, {2}, -3e4);
    EXPECT_TRUE(same_results(merged(a, b), a));
    EXPECT_TRUE(same_results(merged(b, a), a));
  }
}

TEST(Merge, NanShows) {
  AttentionResult a, b;
  a.output = filled(DType::f32, {2, 3}, 5);
  a.statistic = filled(DType::f32, {2}, 1);
  b = copy_of(a);
  set(b.statistic, Dims{1}, std::nan(""));
  for (const AttentionResult& got : {merged(a, b), merged(b, a)}) {
    EXPECT_EQ(get(got.output, Dims{0, 0}), 5);
    EXPECT_TRUE(std::isnan(get(got.output, Dims{1, 0})));
    EXPECT_TRUE(std::isnan(get(got.statistic, Dims{1})));
  }
}

TEST(Merge, AnyStrides) {
  for_problems(30, unmasked(), [](const Case& c, Random& random) {
    if (c.descriptor.q_len == 0 || c.descriptor.value_dim == 0) return;
    const int64_t at = random.between(0, c.descriptor.k_len);
    const AttentionResult a = part(c, 0, at), b = part(c, at, c.descriptor.k_len);
    const AttentionResult dense = merged(a, b);
    const Strided a_output(a.output, Layout::transposed), b_output(b.output, Layout::padded);
    const Strided a_lse(a.statistic, Layout::strided), b_lse(b.statistic, Layout::negative);
    rapt::AttentionState into, from;
    into.output = a_output;
    into.statistic = a_lse;
    into.output.read_only = into.statistic.read_only = false;
    from.output = b_output;
    from.statistic = b_lse;
    rapt::merge(into, from, rapt::kSoftmax);
    EXPECT_TRUE(same_bits(into.output, dense.output));
    EXPECT_TRUE(same_bits(into.statistic, dense.statistic));
  });
}

// A row whose pairs are all masked merges like a row without keys.
TEST(Merge, MaskedRowsAreEmptyRows) {
  Random random(base_seed());
  const Tensor q = random_normal(random, DType::f32, {4, 8}),
               k = random_normal(random, DType::f32, {6, 8});
  const rapt::Causal mask(rapt::Anchor::top_left, -2);  // rows 0 and 1 have no keys
  const rapt::Mask* masks[] = {&mask};
  AttentionOptions options;
  options.masks = masks;
  const AttentionResult some = scaled_dot_product_attention(q, k, k, options);
  const AttentionResult all = scaled_dot_product_attention(q, k, k);
  EXPECT_EQ(get(some.statistic, Dims{1}), -std::numeric_limits<double>::infinity());
  const AttentionResult got = merged(some, all);
  const Dims first{0, 1};
  EXPECT_TRUE(same_bits(taken(got.output, 0, first), taken(all.output, 0, first)));
}

TEST(Merge, RefusesWhatDoesNotFit) {
  Tensor output = filled(DType::f32, {2, 3}, 5), lse = filled(DType::f32, {2}, 1);
  const Tensor other_output = filled(DType::f32, {3, 3}, 5), other_lse = filled(DType::f32, {3}, 1);
  const Tensor wide_output = filled(DType::f64, {2, 3}, 5), wide_lse = filled(DType::f64, {2}, 1);
  const auto code = [&](const TensorView& o, const TensorView& s) {
    rapt::AttentionState into, from;
    into.output = output;
    into.statistic = lse;
    from.output = o;
    from.statistic = s;
    try {
      rapt::merge(into, from, rapt::kSoftmax);
    } catch (const rapt::Error& error) {
      return static_cast<int>(error.code());
    }
    return -1;
  };
  EXPECT_EQ(code(other_output, other_lse), static_cast<int>(rapt::ErrorCode::shape));
  EXPECT_EQ(code(wide_output, wide_lse), static_cast<int>(rapt::ErrorCode::dtype));
  EXPECT_EQ(code(output, {}), static_cast<int>(rapt::ErrorCode::argument));
  EXPECT_EQ(code({}, lse), static_cast<int>(rapt::ErrorCode::argument));
}

int code_of_merge(const rapt::AttentionState& into, const rapt::AttentionState& from) {
  try {
    rapt::merge(into, from, rapt::kSoftmax);
  } catch (const rapt::Error& error) {
    return static_cast<int>(error.code());
  }
  return -1;
}

TEST(Merge, RefusesStatesWithoutRows) {
  float numbers[4] = {};
  const TensorView a(numbers, {}), b(numbers + 1, {}), c(numbers + 2, {}), d(numbers + 3, {});
  EXPECT_EQ(code_of_merge({a, b}, {c, d}), static_cast<int>(rapt::ErrorCode::shape));
  const TensorView row_a(numbers, {1}), row_c(numbers + 2, {1});
  EXPECT_EQ(code_of_merge({row_a, b}, {row_c, d}), static_cast<int>(rapt::ErrorCode::shape));
}

// The output of a merge must not overlap its inputs.
TEST(Merge, RefusesOverlap) {
  const int overlap = static_cast<int>(rapt::ErrorCode::overlap);
  std::vector<float> memory(40);
  float* const m = memory.data();
  const auto output = [&](int at) { return TensorView(m + at, {2, 3}); };
  const auto lse = [&](int at) { return TensorView(m + at, {2}); };
  EXPECT_EQ(code_of_merge({output(0), lse(6)}, {output(10), lse(16)}), -1);
  EXPECT_EQ(code_of_merge({output(0), lse(8)}, {output(5), lse(16)}), overlap);    // outputs
  EXPECT_EQ(code_of_merge({output(0), lse(16)}, {output(10), lse(17)}), overlap);  // statistics
  EXPECT_EQ(code_of_merge({output(0), lse(5)}, {output(10), lse(16)}), overlap);   // its own two
  EXPECT_EQ(code_of_merge({output(0), lse(20)}, {output(10), lse(5)}), overlap);
  EXPECT_EQ(code_of_merge({output(0), lse(20)}, {output(15), lse(30)}), overlap);
  EXPECT_EQ(code_of_merge({output(0), lse(8)}, {output(0), lse(8)}), overlap);
  const TensorView repeated_rows(m, {2, 3}, {0, 1}), repeated_lse(m + 6, {2}, {0});
  EXPECT_EQ(code_of_merge({repeated_rows, lse(6)}, {output(10), lse(16)}), overlap);
  EXPECT_EQ(code_of_merge({output(0), repeated_lse}, {output(10), lse(16)}), overlap);
  // Inputs may have strides of 0.
  EXPECT_EQ(code_of_merge({output(10), lse(16)}, {repeated_rows, repeated_lse}), -1);
}

}  // namespace
}  // namespace laws
