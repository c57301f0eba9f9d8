// Covers, ranges and bits of a mask agree with its predicate, pair by pair, for any positions.
#include <gtest/gtest.h>

#include "check/draw/random_descriptor.h"
#include "check/problem/parse_masks.h"
#include "mask/random_positions.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/window.h"
#include "support/assertions.h"
#include "support/problem_count.h"

namespace laws {
namespace {

using rapt::BoundMask;
using rapt::Cover;
using rapt::Positions;

void expect_agreement(const Case& c, const MaskSpec& spec, const rapt::Mask& mask, Random& random) {
  const Descriptor& p = c.descriptor;
  mask.check(p.leading, p.q_len, p.k_len);
  Dims leading;
  for (const int64_t length : p.leading) leading.push_back(random.between(0, length - 1));
  BoundMask bound;
  bound.mask = &mask;
  bound.q_len = p.q_len;
  bound.k_len = p.k_len;
  mask.bind({leading.data(), static_cast<int>(leading.size()), p.q_len, p.k_len}, &bound);

  const Positions queries = random_positions(random, p.q_len, 64);
  const Positions keys = random_positions(random, p.k_len, 130);
  const auto allowed = [&](int64_t i, int64_t j) {
    return spec.allowed({leading, p.leading, i, j, p.q_len, p.k_len});
  };

  int64_t count = 0;
  for (int64_t i = 0; i < queries.count; ++i)
    for (int64_t j = 0; j < keys.count; ++j) count += allowed(queries[i], keys[j]);
  const Cover cover = mask.cover(bound, queries, keys);
  if (cover == Cover::none) {
    ASSERT_EQ(count, 0);
  } else if (cover == Cover::all) {
    ASSERT_EQ(count, queries.count * keys.count);
  }

  // exclude() only clears, and clears exactly the excluded pairs.
  const uint64_t before = random.chance(0.5) ? ~uint64_t{0} : random.next();
  std::vector<uint64_t> rows(static_cast<size_t>(keys.count), before);
  if (cover == Cover::some) {
    mask.exclude(bound, queries, keys, rows.data());
    for (int64_t j = 0; j < keys.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i) {
        const bool bit = rows[static_cast<size_t>(j)] >> i & 1;
        ASSERT_EQ(bit, (before >> i & 1) && allowed(queries[i], keys[j]))
            << "query " << queries[i] << " key " << keys[j];
      }
  }

  const rapt::KeyRange range = mask.key_range(bound, queries);
  for (int64_t i = 0; i < queries.count; ++i)
    for (int64_t j = 0; j < p.k_len; ++j)
      if (allowed(queries[i], j)) {
        ASSERT_GE(j, range.begin) << "query " << queries[i];
        ASSERT_LT(j, range.end) << "query " << queries[i];
      }
}

TEST(Masks, AgreeWithTheirPredicate) {
  Random random(base_seed());
  Wanted wanted;
  wanted.bias = wanted.layouts = wanted.empty = false;
  wanted.max_work = 5e5;
  for (int n = 0; n < problem_count(300) && !HasFailure(); ++n) {
    const Case c(random_descriptor(random, wanted));
    SCOPED_TRACE(to_string(c.descriptor));
    for (size_t m = 0; m < c.masks.size(); ++m)
      for (int tile = 0; tile < 12 && !HasFailure(); ++tile)
        expect_agreement(c, c.descriptor.masks[m], *c.masks[m], random);
  }
}

// A boolean mask of any strides says the same as a dense one.
TEST(Masks, BooleanOfAnyStrides) {
  Random random(base_seed());
  for (int n = 0; n < 100; ++n) {
    const int64_t q_len = random.between(1, 70), k_len = random.between(1, 140);
    Tensor dense(DType::boolean, {2, q_len, k_len});
    for_each_index(dense.dims(), [&](auto i) { set(dense, i, random.chance(0.5)); });
    const Strided strided(dense, static_cast<Layout>(random.between(0, kLayouts - 1)));
    const rapt::Boolean mask(strided);
    Descriptor p;
    set_leading(p, {2});
    p.q_len = q_len;
    p.k_len = k_len;
    const Case c(p);
    check::Scanner in("boolean");
    MaskSpec spec = check::parse_masks(in, p).front();
    spec.tensors = {dense};
    expect_agreement(c, spec, mask, random);
  }
}

// The tile counts of plan() add up, and its count of allowed pairs is the predicate's.
TEST(Masks, PlanCountsPairs) {
  Random random(base_seed());
  Wanted wanted;
  wanted.bias = wanted.layouts = false;
  wanted.max_work = 5e5;
  for (int n = 0; n < problem_count(150); ++n) {
    const Case c(random_descriptor(random, wanted));
    SCOPED_TRACE(to_string(c.descriptor));
    const Descriptor& p = c.descriptor;
    const rapt::Plan plan = rapt::plan(c.query, c.key, c.value, c.options);
    int64_t heads = 1, pairs = 0;
    for (const int64_t length : p.leading) heads *= length;
    for_each_index(p.leading, [&](auto leading) {
      for (int64_t i = 0; i < p.q_len; ++i)
        for (int64_t j = 0; j < p.k_len; ++j) pairs += c.allowed(leading, i, j);
    });
    if (plan.allowed_scores >= 0) {
      EXPECT_EQ(plan.allowed_scores, pairs);
    }
    if (p.masks.empty()) {
      EXPECT_EQ(plan.allowed_scores, pairs);
      EXPECT_EQ(plan.tiles_partial, 0);
      EXPECT_EQ(plan.tiles_skipped, 0);
    }
    if (plan.tile_queries > 0 && plan.block_keys > 0) {
      const int64_t queries = p.q_len * plan.group_heads;
      const int64_t columns = (p.k_len + plan.block_keys - 1) / plan.block_keys;
      const int64_t tiles = plan.tiles_computed + plan.tiles_partial + plan.tiles_skipped;
      const int64_t tiles_per_row = heads / plan.group_heads * columns;
      // The last work unit may have a tile that is a grain wider, but of 64 queries at most.
      EXPECT_LE(tiles, tiles_per_row * ((queries + plan.tile_queries - 1) / plan.tile_queries));
      EXPECT_GE(tiles, tiles_per_row * ((queries + 63) / 64));
      if (tiles_per_row > 0) {
        EXPECT_EQ(tiles % tiles_per_row, 0);
      }
    }
    if (pairs > 0) {
      EXPECT_GT(plan.tiles_computed + plan.tiles_partial, 0);
    }
  }
}

// A caller's mask: every third key, counted from the query. Its cover() always returns `some`,
// which is correct.
class EveryThird final : public rapt::Mask {
 public:
  static bool allowed(int64_t i, int64_t j) { return (i + j) % 3 == 0; }

  const rapt::Declaration& declaration() const noexcept override {
    static const rapt::Declaration kDeclaration{"every-third", "for a test", "none", {}};
    return kDeclaration;
  }
  void check(Shape, int64_t, int64_t) const override {}
  void bind(const rapt::Head&, BoundMask*) const noexcept override {}
  rapt::KeyRange key_range(const BoundMask& bound, Positions) const noexcept override {
    return {0, bound.k_len};
  }
  Cover cover(const BoundMask&, Positions, Positions) const noexcept override {
    return Cover::some;
  }
  void exclude(const BoundMask&, Positions queries, Positions keys,
               uint64_t* rows) const noexcept override {
    for (int64_t j = 0; j < keys.count; ++j)
      for (int64_t i = 0; i < queries.count; ++i)
        if (!allowed(queries[i], keys[j])) rows[j] &= ~(uint64_t{1} << i);
  }
};

TEST(Masks, WrittenOutsideTheLibrary) {
  Random random(base_seed());
  const EveryThird every_third;
  const rapt::Causal causal;
  for (const int64_t n : {1, 2, 17, 64, 65, 150}) {
    const Tensor x = random_normal(random, DType::f32, {n, 6});
    Tensor allowed(DType::boolean, {n, n});
    for_each_index(allowed.dims(),
                   [&](auto i) { set(allowed, i, EveryThird::allowed(i[0], i[1])); });
    const rapt::Boolean same(allowed);
    const rapt::Mask* own[] = {&every_third, &causal};
    const rapt::Mask* known[] = {&same, &causal};
    rapt::AttentionOptions by_own, by_known;
    by_own.masks = own;
    by_known.masks = known;
    EXPECT_TRUE(same_bits(rapt::scaled_dot_product_attention(x, x, x, by_own).output,
                          rapt::scaled_dot_product_attention(x, x, x, by_known).output));
  }
}

// Half of a causal square is not computed; a window leaves a band.
TEST(Masks, ExcludedTilesAreSkipped) {
  const Tensor t = filled(DType::f32, {4096, 64}, 0);
  const rapt::Causal causal;
  const rapt::Window window(100, 0);
  const auto computed = [&](const rapt::Mask& mask) {
    const rapt::Mask* masks[] = {&mask};
    rapt::AttentionOptions options;
    options.masks = masks;
    const rapt::Plan plan = rapt::plan(t, t, t, options);
    const double all =
        static_cast<double>(plan.tiles_computed + plan.tiles_partial + plan.tiles_skipped);
    return static_cast<double>(plan.tiles_computed + plan.tiles_partial) / all;
  };
  EXPECT_LT(computed(causal), 0.53);
  EXPECT_LT(computed(window), 0.12);
}

}  // namespace
}  // namespace laws
