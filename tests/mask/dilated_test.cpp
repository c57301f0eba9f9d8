// The dilated window: rows worked out by hand, ranges and covers without slack, equal masks, and
// what is rejected.
#include <gtest/gtest.h>

#include "mask/bound_head.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/dilated.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

TEST(Dilated, RowsByHand) {
  const rapt::Dilated two(2, 3);
  const BoundHead square(two, 10, 10);
  EXPECT_EQ(square.row(0), "x..x..x...");
  EXPECT_EQ(square.row(4), ".x..x..x..");
  EXPECT_EQ(square.row(9), "...x..x..x");
  const rapt::Dilated anchored(1, 2, rapt::Anchor::bottom_right);
  const BoundHead wide(anchored, 2, 6);
  EXPECT_EQ(wide.row(0), "..x.x.");
  EXPECT_EQ(wide.row(1), "...x.x");
  const rapt::Dilated alone(0, 5);
  EXPECT_EQ(BoundHead(alone, 3, 3).row(1), ".x.");
}

TEST(Dilated, RangesHaveNoSlack) {
  const rapt::Dilated mask(2, 3);
  const BoundHead head(mask, 100, 100);
  EXPECT_EQ(head.range(50, 1), Keys(44, 57));
  EXPECT_EQ(head.range(50, 10), Keys(44, 66));
  EXPECT_EQ(head.range(4, 1), Keys(1, 11));    // 4 - 6 is before key 0
  EXPECT_EQ(head.range(4, 2), Keys(1, 12));    // 5 begins at key 2
  EXPECT_EQ(head.range(4, 3), Keys(0, 13));    // 6 begins at key 0
  EXPECT_EQ(head.range(95, 1), Keys(89, 99));  // 95 + 3, as 95 + 6 is no key
  const BoundHead few(mask, 100, 2);
  EXPECT_EQ(few.range(5, 1), Keys(0, 0));  // 5 and 2 are no keys
  EXPECT_EQ(few.range(8, 1), Keys(0, 0));
  EXPECT_EQ(few.range(7, 1), Keys(1, 2));
}

TEST(Dilated, CoversHaveNoSlack) {
  using rapt::Cover;
  const rapt::Dilated mask(2, 3);
  const BoundHead head(mask, 100, 100);
  EXPECT_EQ(head.cover({50, 1, 1}, {53, 1, 1}), Cover::all);
  EXPECT_EQ(head.cover({50, 1, 1}, {54, 1, 2}), Cover::none);
  EXPECT_EQ(head.cover({50, 1, 1}, {54, 1, 3}), Cover::some);
  EXPECT_EQ(head.cover({50, 1, 2}, {58, 1, 9}), Cover::none);
  EXPECT_EQ(head.cover({50, 1, 2}, {57, 1, 9}), Cover::some);
}

// Gaps between the keys of a tile are skipped.
TEST(Dilated, RunsHaveNoSlack) {
  const rapt::Dilated mask(2, 30);
  const BoundHead head(mask, 200, 200);
  EXPECT_EQ(head.runs(100, 10), (std::vector{Keys(40, 50), Keys(70, 80), Keys(100, 110),
                                             Keys(130, 140), Keys(160, 170)}));
  EXPECT_EQ(head.runs(25, 10), (std::vector{Keys(0, 5), Keys(25, 35), Keys(55, 65), Keys(85, 95)}));
  EXPECT_EQ(head.runs(100, 30), (std::vector{Keys(40, 190)}));
  const BoundHead few(mask, 200, 20);
  EXPECT_TRUE(few.runs(85, 5).empty());  // 25 to 29 are no keys
  EXPECT_EQ(few.runs(75, 10), (std::vector{Keys(15, 20)}));
}

// A step of 1 is a window; a window of any width in one direction is causal with it.
TEST(Dilated, EqualMasks) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 70, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 300, 8});
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(query, key, key, options);
  };
  for (const rapt::Anchor anchor : {rapt::Anchor::top_left, rapt::Anchor::bottom_right})
    EXPECT_TRUE(
        same_results(attended(rapt::Dilated(7, 1, anchor)), attended(rapt::Window(7, 7, anchor))));
  const int64_t whole = int64_t{1} << 53;
  EXPECT_TRUE(same_results(attended(rapt::Dilated(whole, 1)), attended(rapt::Window(-1, -1))));
  EXPECT_TRUE(same_results(attended(rapt::Dilated(whole, whole)), attended(rapt::Window(0, 0))));
}

TEST(Dilated, Rejections) {
  const auto rejected = [](const rapt::Dilated& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 4, 4); });
  };
  rejected(rapt::Dilated(), "window = -1");
  rejected(rapt::Dilated(3, 0), "step = 0");
  rapt::Dilated by_length(1, 2);
  const Tensor lengths = filled(DType::i64, {}, 3);
  by_length.lengths = lengths;
  rejected(by_length, "the anchor is top-left");
}

}  // namespace
}  // namespace laws
