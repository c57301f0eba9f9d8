// The fixed pattern: rows worked out by hand, runs and covers without slack, equal masks, and what
// is rejected.
#include <gtest/gtest.h>

#include "mask/bound_head.h"
#include "rapt/mask/and.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/chunked.h"
#include "rapt/mask/fixed.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

TEST(FixedPattern, RowsByHand) {
  const rapt::Fixed mask(4, 1);
  const BoundHead square(mask, 12, 12);
  EXPECT_EQ(square.row(0), "x...........");
  EXPECT_EQ(square.row(3), "xxxx........");
  EXPECT_EQ(square.row(10), "...x...xxxx.");
  const rapt::Fixed anchored(4, 2, rapt::Anchor::bottom_right);
  const BoundHead wide(anchored, 2, 7);
  EXPECT_EQ(wide.row(0), "..xxxx.");
  EXPECT_EQ(wide.row(1), "..xxxxx");
}

TEST(FixedPattern, RunsHaveNoSlack) {
  const rapt::Fixed mask(100, 10);
  const BoundHead head(mask, 1000, 1000);
  EXPECT_EQ(head.runs(330, 20), (std::vector{Keys(90, 100), Keys(190, 200), Keys(290, 350)}));
  EXPECT_EQ(head.runs(290, 20), (std::vector{Keys(90, 100), Keys(190, 310)}));
  EXPECT_EQ(head.runs(0, 1), (std::vector{Keys(0, 1)}));
  EXPECT_EQ(head.range(330, 20), Keys(90, 350));
}

TEST(FixedPattern, CoversHaveNoSlack) {
  using rapt::Cover;
  const rapt::Fixed mask(100, 10);
  const BoundHead head(mask, 1000, 1000);
  EXPECT_EQ(head.cover({330, 1, 20}, {290, 1, 41}), Cover::all);
  EXPECT_EQ(head.cover({330, 1, 20}, {289, 1, 10}), Cover::some);
  EXPECT_EQ(head.cover({330, 1, 20}, {290, 1, 42}), Cover::some);
  EXPECT_EQ(head.cover({330, 1, 20}, {200, 1, 90}), Cover::none);
  EXPECT_EQ(head.cover({330, 1, 20}, {200, 1, 91}), Cover::some);
  EXPECT_EQ(head.cover({390, 1, 20}, {190, 1, 10}), Cover::all);
  EXPECT_EQ(head.cover({390, 1, 20}, {300, 1, 10}), Cover::some);
  EXPECT_EQ(head.cover({330, 1, 20}, {350, 1, 10}), Cover::none);
}

TEST(FixedPattern, EqualMasks) {
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {2, 150, 8});
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(x, x, x, options);
  };
  const rapt::Causal causal;
  EXPECT_TRUE(same_results(attended(rapt::Fixed(7, 7)), attended(causal)));
  EXPECT_TRUE(same_results(attended(rapt::Fixed(200, 1)), attended(causal)));
}

TEST(FixedPattern, Rejections) {
  const auto rejected = [](const rapt::Fixed& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 4, 4); });
  };
  rejected(rapt::Fixed(), "stride = 0");
  rejected(rapt::Fixed(3, 0), "summary = 0");
  rejected(rapt::Fixed(3, 4), "the last 4 positions of blocks of 3");
  rapt::Fixed by_length(2, 1);
  const Tensor lengths = filled(DType::i64, {}, 3);
  by_length.lengths = lengths;
  rejected(by_length, "the anchor is top-left");
}

}  // namespace
}  // namespace laws
