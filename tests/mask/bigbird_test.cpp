// BigBird: rows worked out by hand, random blocks that are distinct, repeatable and even, runs
// without slack, tiles of any width, and what is rejected.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "mask/bound_head.h"
#include "rapt/backward.h"
#include "rapt/mask/bigbird.h"
#include "rapt/mask/boolean.h"
#include "support/call.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace laws {
namespace {

// The key blocks that a query attends to.
std::set<int64_t> blocks_of_query(const BoundHead& head, int64_t query, int64_t block) {
  std::set<int64_t> found;
  const std::string row = head.row(query);
  for (size_t key = 0; key < row.size(); key += static_cast<size_t>(block))
    if (row[key] == 'x') found.insert(static_cast<int64_t>(key) / block);
  return found;
}

TEST(BigBird, RowsByHand) {
  const rapt::BigBird local(2, 3, 1, 0);
  const BoundHead square(local, 11, 11);
  EXPECT_EQ(square.row(0), "xxxxxxxxxxx");
  EXPECT_EQ(square.row(1), "xxxxxxxxxxx");
  EXPECT_EQ(square.row(2), "xxxxxx.....");
  EXPECT_EQ(square.row(7), "xx..xxxxxx.");
  EXPECT_EQ(square.row(10), "xx......xxx");
  const rapt::BigBird own(3, 1, 0, 0, 0, rapt::Anchor::bottom_right);
  const BoundHead late(own, 3, 7);  // positions 4, 5, 6
  EXPECT_EQ(late.row(0), "...xxx.");
  EXPECT_EQ(late.row(1), "...xxx.");
  EXPECT_EQ(late.row(2), "......x");
  const BoundHead early(own, 5, 3);  // positions -2, -1, 0, 1, 2
  EXPECT_EQ(early.row(1), "...");
  EXPECT_EQ(early.row(2), "xxx");
  const rapt::BigBird top_left(2, 1, 1, 0);
  EXPECT_EQ(BoundHead(top_left, 9, 5).row(8), "xx...");
}

TEST(BigBird, RandomBlocksAreDistinctAndRepeatable) {
  const rapt::BigBird mask(4, 3, 2, 5, 17);
  const int64_t n = 4 * 40;
  std::set<std::set<int64_t>> different;
  for (const int64_t head : {0, 1})
    for (int64_t row = 2; row < 40; ++row) {
      const BoundHead first(mask, n, n, {0, head}), other_batch(mask, n, n, {3, head});
      const std::set<int64_t> blocks = blocks_of_query(first, 4 * row + 3, 4);
      // 2 global blocks, those of the window that are not global, and 5 others.
      const int64_t window = std::min<int64_t>(row + 1, 39) - std::max<int64_t>(row - 1, 2) + 1;
      ASSERT_EQ(static_cast<int64_t>(blocks.size()), 2 + window + 5) << row;
      EXPECT_EQ(blocks, blocks_of_query(first, 4 * row, 4));  // all queries of a block
      EXPECT_EQ(blocks, blocks_of_query(other_batch, 4 * row, 4));
      std::set<int64_t> drawn;
      for (const int64_t b : blocks)
        if (b >= 2 && std::abs(b - row) > 1) drawn.insert(b);
      different.insert(drawn);
    }
  EXPECT_GT(different.size(), 70u);  // of 76
  const rapt::BigBird other_seed(4, 3, 2, 5, 18);
  EXPECT_NE(blocks_of_query(BoundHead(mask, n, n), 80, 4),
            blocks_of_query(BoundHead(other_seed, n, n), 80, 4));
}

// Every candidate is drawn as often as any other: 3,000 rows far from the window draw 2 of 10
// blocks.
TEST(BigBird, RandomBlocksAreEven) {
  const rapt::BigBird mask(1, 1, 0, 2, 3);
  const BoundHead head(mask, 3010, 10);
  int64_t counts[10] = {};
  for (int64_t query = 10; query < 3010; ++query)
    for (const int64_t b : blocks_of_query(head, query, 1)) ++counts[b];
  const double expected = 3000 * 0.2, deviation = std::sqrt(3000 * 0.2 * 0.8);
  for (const int64_t count : counts)
    EXPECT_NEAR(static_cast<double>(count), expected, 5 * deviation);
}

// No run of a tile holds a key to which none of its queries attends, and no tile that is empty or
// whole is called partial.
TEST(BigBird, RunsAndCoversHaveNoSlack) {
  Random random(base_seed());
  for (int n = 0; n < 300; ++n) {
    const rapt::BigBird mask(random.between(1, 9), random.pick({1, 3, 5}), random.between(0, 2),
                             random.between(0, 3), random.between(0, 99),
                             random.pick({rapt::Anchor::top_left, rapt::Anchor::bottom_right}));
    const int64_t k_len = 100 + random.between(0, 99), q_len = random.between(1, 200);
    const BoundHead head(mask, q_len, k_len);
    const int64_t first = random.between(0, q_len - 1);
    const rapt::Positions queries{first, 1,
                                  random.between(1, std::min<int64_t>(64, q_len - first))};
    const auto attended = [&](int64_t key) {
      bool any = false;
      for (int64_t i = 0; i < queries.count; ++i) any = any || head.attends(queries[i], key);
      return any;
    };
    const std::vector<bool> in_run = head.keys_of_runs(queries);
    for (int64_t key = 0; key < k_len; ++key)
      ASSERT_EQ(in_run[static_cast<size_t>(key)], attended(key)) << to_string(mask) << " " << key;
    const auto [first_key, end_key] = head.range(queries.start, queries.count);
    if (first_key < end_key) {
      EXPECT_TRUE(attended(first_key) && attended(end_key - 1));
    }
    const int64_t begin = random.between(0, k_len - 1);
    const rapt::Positions keys{begin, 1, random.between(1, k_len - begin)};
    int64_t pairs = 0;
    for (int64_t i = 0; i < queries.count; ++i)
      for (int64_t j = 0; j < keys.count; ++j) pairs += head.attends(queries[i], keys[j]);
    const rapt::Cover expected = pairs == 0                            ? rapt::Cover::none
                                 : pairs == queries.count * keys.count ? rapt::Cover::all
                                                                       : rapt::Cover::some;
    ASSERT_EQ(static_cast<int>(head.cover(queries, keys)), static_cast<int>(expected));
  }
}

// A step as long as the sequence, as of requested rows, touches two rows of blocks: those between
// are not visited.
TEST(BigBird, StepsOverRows) {
  const int64_t n = int64_t{1} << 40;
  const rapt::BigBird own(1, 1, 0, 0);
  const BoundHead head(own, n, n);
  const rapt::Positions ends{0, n - 1, 2};
  EXPECT_EQ(head.cover(ends, {1, 1, n - 2}), rapt::Cover::none);
  EXPECT_EQ(head.cover(ends, {0, 1, 2}), rapt::Cover::some);
  EXPECT_EQ(head.runs(ends), (std::vector{Keys(0, 1), Keys(n - 1, n)}));
}

// Tiles that end with groups of queries give the bits of tiles that do not: those of a matrix of
// the same pairs, forward and backward, in every dtype. Lengths end within a block. With several
// threads a unit is one such tile, which may be narrower than the tiles of second passes.
TEST(BigBird, WidthsOfTilesChangeNoBit) {
  Random random(base_seed());
  Threads threads(4);
  Context context;
  context.executor = &threads;
  for (const int64_t block : {4, 8, 16, 32, 48, 64}) {
    const rapt::BigBird mask(block, 3, 1, 1, 9);
    const int64_t n = 6 * block + random.between(1, block);
    Tensor pairs(DType::boolean, {2, n, n});
    for (const int64_t head : {0, 1}) {
      const BoundHead bound(mask, n, n, {head});
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) set(pairs, Dims{head, i, j}, bound.attends(i, j));
    }
    const rapt::Boolean same(pairs);
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
      const Tensor x = random_normal(random, dtype, {2, n, 16});
      const auto results = [&](const rapt::Mask& m) {
        AttentionOptions options;
        options.masks = {&m};
        options.received = true;
        options.map = {.rows = 3, .columns = 4};
        // No tile straddles two blocks where a usual width fits.
        if (&m == &mask && block == 64 && dtype == DType::f32) {
          EXPECT_EQ(block % rapt::plan(x, x, x, options).tile_queries, 0);
        }
        return scaled_dot_product_attention(x, x, x, options, context);
      };
      const AttentionResult got = results(mask), expected = results(same);
      EXPECT_TRUE(same_results(got, expected)) << block;
      EXPECT_TRUE(same_bits(got.received, expected.received)) << block;
      EXPECT_TRUE(same_bits(got.map, expected.map)) << block;
      const auto gradients = [&](const rapt::Mask& m) {
        AttentionOptions options;
        options.masks = {&m};
        return scaled_dot_product_attention_backward(
            x, x, x, options, {.state = {expected.output, expected.statistic}, .d_output = x});
      };
      const rapt::Gradients by_blocks = gradients(mask), by_pairs = gradients(same);
      EXPECT_TRUE(same_bits(by_blocks.d_query, by_pairs.d_query)) << block;
      EXPECT_TRUE(same_bits(by_blocks.d_key, by_pairs.d_key)) << block;
      EXPECT_TRUE(same_bits(by_blocks.d_value, by_pairs.d_value)) << block;
    }
  }
}

// plan() skips what no query attends to, and counts pairs alone.
TEST(BigBird, CountsOfThePlan) {
  const rapt::BigBird mask(64, 3, 1, 3);
  const int64_t n = 64 * 32;
  const Tensor x(DType::f32, {1, n, 8});
  AttentionOptions options;
  options.masks = {&mask};
  const rapt::Plan plan = rapt::plan(x, x, x, options);
  // Row 0 attends to all 32 blocks. Of the others, rows 1 and 31 lack a block of the window.
  EXPECT_EQ(plan.allowed_scores, 64 * 64 * (32 + 29 * 7 + 2 * 6));
  EXPECT_GT(plan.tiles_skipped, (plan.tiles_computed + plan.tiles_partial) / 2);
}

TEST(BigBird, Rejections) {
  const auto rejected = [](const rapt::BigBird& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 256, 256); });
  };
  rejected(rapt::BigBird(), "block = 0");
  rejected(rapt::BigBird(64, 2, 1, 0), "window = 2");
  rejected(rapt::BigBird(64, 3, 1, 3), "k_len = 256 has 4 blocks of 64");
  rejected(rapt::BigBird(64, 3, -1, 0), "global = -1");
  rejected(rapt::BigBird(1, 3, 1, 65), "random = 65");
  rejected(rapt::BigBird(1, 3, 1, 6, -1), "seed = -1");
  rapt::BigBird(64, 3, 1, 0).check({}, 256, 256);
  rapt::BigBird(32, 3, 1, 4).check({}, 256, 256);
  rapt::BigBird(64, 3, 1, 3).check({}, 0, 0);
}

}  // namespace
}  // namespace laws
