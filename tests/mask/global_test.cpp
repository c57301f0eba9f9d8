// Global tokens: rows worked out by hand, ranges and covers, positions per batch, Longformer's
// mask, and what is rejected.
#include <gtest/gtest.h>

#include "mask/bound_head.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/global.h"
#include "rapt/mask/or.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

TEST(GlobalTokens, RowsByHand) {
  const rapt::Global two(2);
  const BoundHead square(two, 6, 6);
  EXPECT_EQ(square.row(0), "xxxxxx");
  EXPECT_EQ(square.row(1), "xxxxxx");
  EXPECT_EQ(square.row(5), "xx....");
  const rapt::Global anchored(3, rapt::Anchor::bottom_right);
  const BoundHead wide(anchored, 3, 5);  // the queries at positions 2, 3 and 4
  EXPECT_EQ(wide.row(0), "xxxxx");
  EXPECT_EQ(wide.row(1), "xxx..");
  int64_t chosen[] = {-1, 1, 4};
  const rapt::TensorView positions(chosen, {3});
  const rapt::Global some(positions);
  const BoundHead listed(some, 6, 6);
  EXPECT_EQ(listed.row(0), ".x..x.");
  EXPECT_EQ(listed.row(4), "xxxxxx");
}

TEST(GlobalTokens, RangesAndRunsHaveNoSlack) {
  const rapt::Global first(16);
  const BoundHead head(first, 1000, 1000);
  EXPECT_EQ(head.range(16, 100), Keys(0, 16));
  EXPECT_EQ(head.range(15, 1), Keys(0, 1000));
  EXPECT_EQ(head.cover({16, 1, 64}, {16, 1, 100}), rapt::Cover::none);
  EXPECT_EQ(head.cover({16, 1, 64}, {10, 1, 6}), rapt::Cover::all);
  EXPECT_EQ(head.cover({10, 1, 6}, {500, 1, 100}), rapt::Cover::all);
  EXPECT_EQ(head.cover({15, 1, 2}, {500, 1, 100}), rapt::Cover::some);
  int64_t chosen[] = {3, 4, 5, 700, 999};
  const rapt::TensorView positions(chosen, {5});
  const rapt::Global some(positions);
  const BoundHead listed(some, 1000, 1000);
  EXPECT_EQ(listed.runs(10, 64), (std::vector{Keys(3, 6), Keys(700, 701), Keys(999, 1000)}));
  EXPECT_EQ(listed.runs(690, 64), (std::vector{Keys(0, 1000)}));
  EXPECT_EQ(listed.cover({10, 1, 64}, {3, 1, 3}), rapt::Cover::all);
}

// A step as long as the sequence, as of requested rows: two queries, however many tokens lie
// between.
TEST(GlobalTokens, StepsOverTokens) {
  const int64_t n = int64_t{1} << 40;
  const rapt::Global half(n / 2);
  const BoundHead head(half, n, n);
  EXPECT_EQ(head.cover({n / 2 - 1, n / 4, 2}, {n - 10, 1, 10}), rapt::Cover::some);
  EXPECT_EQ(head.cover({0, n / 2 - 1, 2}, {n - 10, 1, 10}), rapt::Cover::all);
  EXPECT_EQ(head.cover({n / 2, n / 4, 2}, {n / 2, n / 8, 4}), rapt::Cover::none);
  uint64_t bits[] = {3, 3};
  head.exclude({n / 4, n / 2, 2}, {0, n - 1, 2}, bits);
  EXPECT_EQ(bits[0], 3u);
  EXPECT_EQ(bits[1], 1u);
}

// A tensor of the first positions is the count; each batch has positions of its own.
TEST(GlobalTokens, PositionsOfBatches) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 3, 70, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 3, 90, 8});
  const auto attended = [&](const rapt::Mask& mask, const TensorView& q, const TensorView& k) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(q, k, k, options);
  };
  int64_t first[] = {0, 1, 2, 3};
  const rapt::TensorView same(first, {4});
  EXPECT_TRUE(same_results(attended(rapt::Global(same), query, key),
                           attended(rapt::Global(4), query, key)));
  int64_t both[] = {-1, 0, 17, 80};
  const rapt::TensorView positions(both, {2, 2});
  const AttentionResult together = attended(rapt::Global(positions), query, key);
  for (int64_t b = 0; b < 2; ++b) {
    const rapt::TensorView own(both + 2 * b, {2});
    const auto batch = [&](const Tensor& x, int64_t length) {
      return TensorView(x.values<float>().data() + b * 3 * length * 8, {3, length, 8});
    };
    const AttentionResult alone = attended(rapt::Global(own), batch(query, 70), batch(key, 90));
    const auto expected = alone.output.values<float>();
    const auto found = together.output.values<float>().subspan(
        static_cast<size_t>(b) * expected.size(), expected.size());
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin()));
  }
}

// A pair that both the window and the global tokens allow counts once.
TEST(GlobalTokens, Longformer) {
  const rapt::Window window(2, 2);
  const rapt::Global global(1);
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {2, 40, 8});
  Tensor pairs(DType::boolean, {40, 40});
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 40; ++j)
      pairs.values<bool>()[static_cast<size_t>(i * 40 + j)] =
          std::abs(i - j) <= 2 || i == 0 || j == 0;
  const rapt::Boolean same(pairs);
  const rapt::Or either{&window, &global};
  AttentionOptions options;
  options.masks = {&either};
  const AttentionResult composed = scaled_dot_product_attention(x, x, x, options);
  EXPECT_EQ(plan(x, x, x, options).allowed_scores, 2 * (40 * 5 - 6 + 2 * (39 - 2)));
  options.masks = {&same};
  EXPECT_TRUE(same_results(composed, scaled_dot_product_attention(x, x, x, options)));
}

TEST(GlobalTokens, Rejections) {
  const auto rejected = [](const rapt::Global& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 4, 4); });
  };
  rejected(rapt::Global(-1), "count = -1");
  const auto refused = [&](std::initializer_list<int64_t> list, const char* words) {
    std::vector<int64_t> positions(list);
    const rapt::TensorView view(positions.data(), {static_cast<int64_t>(positions.size())});
    rejected(rapt::Global(view), words);
  };
  refused({0, 4}, "position 4; expected 0 to 3");
  refused({-2, 1}, "position -2; expected 0 to 3");
  refused({2, 1}, "position 1 after 2; expected rising");
  refused({1, 1}, "position 1 after 1; expected rising");
  refused({1, -1}, "-1 (none) after position 1");
  int64_t one[] = {1};
  const rapt::TensorView view(one, {1});
  rapt::Global both(view);
  both.count = 2;
  rejected(both, "a count of 2 and a tensor of positions");
}

}  // namespace
}  // namespace laws
