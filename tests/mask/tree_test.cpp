// Trees of tokens: rows worked out by hand, the context before a tree, a chain, trees of batches,
// and what is rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "mask/bound_head.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/tree.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

// 0 has the children 1 and 2, 1 has 3 and 5, 2 has 4.
int64_t small_tree[] = {-1, 0, 0, 1, 2, 1};
const rapt::TensorView kSmallTree(small_tree, {6});

TEST(TreeMask, RowsByHand) {
  const rapt::Tree mask(kSmallTree);
  const BoundHead head(mask, 6, 6);
  EXPECT_EQ(head.row(0), "x.....");
  EXPECT_EQ(head.row(3), "xx.x..");
  EXPECT_EQ(head.row(4), "x.x.x.");
  EXPECT_EQ(head.row(5), "xx...x");
}

TEST(TreeMask, ContextBeforeTheTree) {
  const rapt::Tree mask(kSmallTree);
  const BoundHead drafts(mask, 6, 9);
  EXPECT_EQ(drafts.row(0), "xxxx.....");
  EXPECT_EQ(drafts.row(4), "xxxx.x.x.");
  EXPECT_EQ(drafts.cover({0, 1, 6}, {0, 1, 3}), rapt::Cover::all);
  EXPECT_EQ(drafts.range(0, 2), std::pair(int64_t{0}, int64_t{5}));
  const BoundHead with_context(mask, 8, 9);  // the queries from key 1 on
  EXPECT_EQ(with_context.row(0), "xx.......");
  EXPECT_EQ(with_context.row(1), "xxx......");
  EXPECT_EQ(with_context.row(2), "xxxx.....");
  const BoundHead more_queries(mask, 7, 6);  // query 0 is before the first key
  EXPECT_EQ(more_queries.row(0), "......");
  EXPECT_EQ(more_queries.row(1), "x.....");
}

// A chain is causal; trees of batches are those of calls of their own.
TEST(TreeMask, ChainsAndBatches) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 3, 70, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 3, 200, 8});
  const auto attended = [&](const rapt::Mask& mask, const TensorView& q, const TensorView& k) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(q, k, k, options);
  };
  std::vector<int64_t> parents(140);
  for (size_t t = 0; t < 70; ++t) {
    parents[t] = static_cast<int64_t>(t) - 1;
    parents[70 + t] = (static_cast<int64_t>(t) - 1) / 2;  // a binary tree
  }
  parents[70] = -1;
  const rapt::TensorView chain(parents.data(), {70}), binary(parents.data() + 70, {70});
  const rapt::TensorView both(parents.data(), {2, 70});
  EXPECT_TRUE(same_results(attended(rapt::Tree(chain), query, key),
                           attended(rapt::Causal(rapt::Anchor::bottom_right), query, key)));
  const AttentionResult together = attended(rapt::Tree(both), query, key);
  const TensorView q1(query.values<float>().data() + 3 * 70 * 8, {3, 70, 8});
  const TensorView k1(key.values<float>().data() + 3 * 200 * 8, {3, 200, 8});
  const AttentionResult alone = attended(rapt::Tree(binary), q1, k1);
  const auto expected = alone.output.values<float>();
  const auto found = together.output.values<float>().subspan(expected.size());
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin()));
}

// Paths of many queries meet at their ancestors.
TEST(TreeMask, TilesOfManyQueries) {
  constexpr int64_t kTokens = 300, kContext = 40;
  Random random(base_seed());
  std::vector<int64_t> parents(kTokens);
  for (int64_t t = 0; t < kTokens; ++t)
    parents[static_cast<size_t>(t)] =
        random.chance(0.1) ? random.between(-1, t - 1) : std::max<int64_t>(-1, t - 3);
  const auto is_ancestor = [&](int64_t key, int64_t position) {
    while (position > key && position >= kContext) {
      const int64_t parent = parents[static_cast<size_t>(position - kContext)];
      position = parent < 0 ? kContext - 1 : kContext + parent;
    }
    return position < kContext ? key <= position : key == position;
  };
  const rapt::TensorView view(parents.data(), {kTokens});
  const rapt::Tree mask(view);
  constexpr int64_t kOffset = kContext - 10;  // the position of query 0
  rapt::BoundMask bound{&mask, nullptr, {}, kTokens + 10, kTokens + kContext};
  mask.bind({nullptr, 0, bound.q_len, bound.k_len}, &bound);
  for (const rapt::Positions queries : {rapt::Positions{246, 1, 64}, {3, 4, 64}, {200, 1, 1}})
    for (const rapt::Positions keys : {rapt::Positions{0, 1, 128}, {128, 1, 128}, {35, 3, 100}}) {
      std::vector<uint64_t> bits(static_cast<size_t>(keys.count), ~uint64_t{0});
      mask.exclude(bound, queries, keys, bits.data());
      for (int64_t j = 0; j < keys.count; ++j)
        for (int64_t i = 0; i < queries.count; ++i)
          ASSERT_EQ((bits[static_cast<size_t>(j)] >> i & 1) != 0,
                    is_ancestor(keys[j], queries[i] + kOffset))
              << "query " << queries[i] << ", key " << keys[j];
    }
}

TEST(TreeMask, Rejections) {
  const auto rejected = [](rapt::ErrorCode code, const rapt::Tree& mask, const char* words) {
    expect_error(code, {words}, [&] { mask.check({}, 4, 4); });
  };
  const auto refused = [&](std::initializer_list<int64_t> list, const char* words,
                           rapt::ErrorCode code = rapt::ErrorCode::argument) {
    std::vector<int64_t> parents(list);
    const rapt::TensorView view(parents.data(), {static_cast<int64_t>(parents.size())});
    rejected(code, rapt::Tree(view), words);
  };
  refused({1, 0}, "the parent of token 0 is 1");  // a circle
  refused({-1, 1}, "the parent of token 1 is 1");
  refused({-1, -2}, "the parent of token 1 is -2");
  refused({-1, 0, 1, 2, 3}, "parents of 5 tokens; expected at most k_len = 4",
          rapt::ErrorCode::shape);
  rejected(rapt::ErrorCode::argument, rapt::Tree(), "no tensor was given");
  const Tensor numbers = filled(DType::f32, {4}, 0);
  rejected(rapt::ErrorCode::dtype, rapt::Tree(numbers), "expected i64, got f32");
}

}  // namespace
}  // namespace laws
