// Equivalent options give the same bits, and limits give exact results.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/window.h"
#include "support/call.h"

namespace laws {
namespace {

AttentionResult masked(const Case& c, std::initializer_list<const rapt::Mask*> masks) {
  const std::vector<const rapt::Mask*> list(masks);
  AttentionOptions options = c.options;
  options.masks = list;
  options.weights.emplace();
  return scaled_dot_product_attention(c.query, c.key, c.value, options);
}

Wanted one_head() {
  Wanted wanted = unmasked();
  wanted.leading = false;
  return wanted;
}

TEST(Equivalence, WideWindowIsNoMask) {
  for_problems(30, unmasked(), [](const Case& c, Random& random) {
    const int64_t n = std::max(c.descriptor.q_len, c.descriptor.k_len) + random.between(0, 3);
    const rapt::Window wide(n, n), open(-1, -1);
    const AttentionResult full = masked(c, {});
    EXPECT_TRUE(same_results(masked(c, {&wide}), full));
    EXPECT_TRUE(same_results(masked(c, {&open}), full));
  });
}

TEST(Equivalence, AnchorsAgreeOnSquares) {
  for_problems(30, one_head(), [](const Case& c, Random& random) {
    Descriptor square = c.descriptor;
    square.k_len = square.q_len;
    const Case s(square);
    const int64_t offset = random.between(-3, 3);
    const rapt::Causal tl(rapt::Anchor::top_left, offset), br(rapt::Anchor::bottom_right, offset);
    EXPECT_TRUE(same_results(masked(s, {&tl}), masked(s, {&br})));
    const rapt::Window wtl(3, 2), wbr(3, 2, rapt::Anchor::bottom_right);
    EXPECT_TRUE(same_results(masked(s, {&wtl}), masked(s, {&wbr})));
  });
}

TEST(Equivalence, AnchorsDifferByOffset) {
  for_problems(30, one_head(), [](const Case& c, Random&) {
    const rapt::Causal br(rapt::Anchor::bottom_right);
    const rapt::Causal tl(rapt::Anchor::top_left, c.descriptor.k_len - c.descriptor.q_len);
    EXPECT_TRUE(same_results(masked(c, {&br}), masked(c, {&tl})));
  });
}

TEST(Equivalence, CausalIsWindowWithoutRight) {
  for_problems(30, one_head(), [](const Case& c, Random&) {
    for (const rapt::Anchor anchor : {rapt::Anchor::top_left, rapt::Anchor::bottom_right}) {
      const rapt::Causal causal(anchor);
      const rapt::Window window(-1, 0, anchor);
      EXPECT_TRUE(same_results(masked(c, {&causal}), masked(c, {&window})));
    }
  });
}

// A mask by formula and the same mask element by element, alone and as the "and" of its parts.
// Tiles without an allowed pair may be skipped by one and computed by the other: the bits are the
// same.
TEST(Equivalence, EveryMaskIsABooleanMask) {
  Wanted wanted;
  wanted.bias = false;
  for_problems(150, wanted, [](const Case& c, Random&) {
    const Descriptor& p = c.descriptor;
    if (p.masks.empty()) return;
    Dims dims = p.leading;
    dims.insert(dims.end(), {p.q_len, p.k_len});
    Tensor allowed(DType::boolean, dims);
    for_each_index(dims, [&](auto index) {
      set(allowed, index,
          c.allowed(index.first(p.leading.size()), index[p.leading.size()],
                    index[p.leading.size() + 1]));
    });
    const rapt::Boolean mask(allowed);
    AttentionOptions options = c.options;
    options.weights.emplace();
    const AttentionResult by_formula =
        scaled_dot_product_attention(c.query, c.key, c.value, options);
    EXPECT_TRUE(same_results(masked(c, {&mask}), by_formula));
  });
}

TEST(Equivalence, OrderOfMasks) {
  for_problems(60, {}, [](const Case& c, Random&) {
    std::vector<const rapt::Mask*> backwards(c.mask_pointers.rbegin(), c.mask_pointers.rend());
    AttentionOptions options = c.options;
    options.masks = backwards;
    EXPECT_TRUE(
        same_results(scaled_dot_product_attention(c.query, c.key, c.value, options), attend(c)));
  });
}

TEST(Equivalence, DefaultScaleIsInverseRoot) {
  for_problems(30, {}, [](const Case& c, Random&) {
    AttentionOptions by_default = c.options, explicit_scale = c.options;
    by_default.scale.reset();
    explicit_scale.scale = 1 / std::sqrt(static_cast<double>(c.descriptor.head_dim));
    EXPECT_TRUE(
        same_results(scaled_dot_product_attention(c.query, c.key, c.value, by_default),
                     scaled_dot_product_attention(c.query, c.key, c.value, explicit_scale)));
  });
}

TEST(Equivalence, NegativeScaleIsNegativeKey) {
  for_problems(30, {}, [](const Case& c, Random&) {
    AttentionOptions negative = c.options, positive = c.options;
    positive.scale = 0.7;
    negative.scale = -0.7;
    const Tensor key = mapped(c.key, [](double x, auto) { return -x; });
    EXPECT_TRUE(same_results(scaled_dot_product_attention(c.query, c.key, c.value, negative),
                             scaled_dot_product_attention(c.query, key, c.value, positive)));
  });
}

// e^-104 is below half of the smallest float: with a gap above it the output is exactly one row of
// the values. In f64 the gap is 746.
TEST(Equivalence, LargeGapSelectsOneRow) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t k_len : {1, 2, 17, 64, 65, 130, 257})
      for (const int64_t best : {int64_t{0}, k_len / 2, k_len - 1}) {
        Random random(base_seed() + static_cast<uint64_t>(k_len));
        const Tensor query = filled(dtype, {5, 1}, 1);
        const Tensor value = random_normal(random, dtype, {k_len, 7});
        const double gap = dtype == DType::f64 ? 750 : 106;
        Tensor key = filled(dtype, {k_len, 1}, 3);
        set(key, Dims{best, 0}, 3 + gap);
        AttentionOptions options;
        options.scale = 1;
        const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
        const Dims rows(5, best);
        EXPECT_TRUE(same_bits(got.output, taken(value, 0, rows))) << k_len << " " << best;
        for (const double lse : {get(got.statistic, Dims{0}), get(got.statistic, Dims{4})})
          EXPECT_NEAR(lse, 3 + gap, (3 + gap) * 3e-7);
      }
}

}  // namespace
}  // namespace laws
