// The strided pattern: rows worked out by hand, runs and covers without slack, the union of its two
// parts, and what is rejected.
#include <gtest/gtest.h>

#include "mask/bound_head.h"
#include "rapt/mask/and.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/dilated.h"
#include "rapt/mask/or.h"
#include "rapt/mask/strided.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

TEST(StridedPattern, RowsByHand) {
  const rapt::Strided three(3);
  const BoundHead square(three, 12, 12);
  EXPECT_EQ(square.row(0), "x...........");
  EXPECT_EQ(square.row(3), "xxxx........");
  EXPECT_EQ(square.row(11), "..x..x..xxxx");
  const rapt::Strided anchored(2, rapt::Anchor::bottom_right);
  const BoundHead wide(anchored, 2, 7);
  EXPECT_EQ(wide.row(0), ".x.xxx.");
  EXPECT_EQ(wide.row(1), "x.x.xxx");
}

TEST(StridedPattern, RunsHaveNoSlack) {
  const rapt::Strided mask(100);
  const BoundHead head(mask, 1000, 1000);
  EXPECT_EQ(head.runs(320, 10), (std::vector{Keys(20, 30), Keys(120, 130), Keys(220, 330)}));
  EXPECT_EQ(head.runs(295, 10), (std::vector{Keys(0, 5), Keys(95, 105), Keys(195, 305)}));
  EXPECT_EQ(head.runs(320, 100), (std::vector{Keys(0, 420)}));
  const BoundHead few(mask, 1000, 60);
  EXPECT_EQ(few.runs(320, 50), (std::vector{Keys(20, 60)}));
  EXPECT_TRUE(few.runs(370, 10).empty());
  EXPECT_EQ(head.range(320, 10), Keys(20, 330));
}

TEST(StridedPattern, CoversHaveNoSlack) {
  using rapt::Cover;
  const rapt::Strided mask(100);
  const BoundHead head(mask, 1000, 1000);
  EXPECT_EQ(head.cover({500, 1, 10}, {409, 1, 92}), Cover::all);
  EXPECT_EQ(head.cover({500, 1, 10}, {408, 1, 93}), Cover::some);
  EXPECT_EQ(head.cover({500, 1, 10}, {310, 1, 90}), Cover::none);
  EXPECT_EQ(head.cover({500, 1, 10}, {309, 1, 91}), Cover::some);
  EXPECT_EQ(head.cover({500, 1, 1}, {200, 1, 1}), Cover::all);
  EXPECT_EQ(head.cover({500, 1, 10}, {510, 1, 10}), Cover::none);
}

TEST(StridedPattern, UnionOfItsParts) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 70, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 300, 8});
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(query, key, key, options);
  };
  for (const rapt::Anchor anchor : {rapt::Anchor::top_left, rapt::Anchor::bottom_right}) {
    const rapt::Causal causal(anchor);
    const rapt::Window last(20, 0, anchor);
    const rapt::Dilated apart(300, 20, anchor);
    const rapt::And before{&apart, &causal};
    const rapt::Or either{&last, &before};
    EXPECT_TRUE(same_results(attended(rapt::Strided(20, anchor)), attended(either)));
    EXPECT_TRUE(same_results(attended(rapt::Strided(1, anchor)), attended(causal)));
    EXPECT_TRUE(same_results(attended(rapt::Strided(int64_t{1} << 53, anchor)), attended(causal)));
  }
}

TEST(StridedPattern, Rejections) {
  const auto rejected = [](const rapt::Strided& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 4, 4); });
  };
  rejected(rapt::Strided(), "stride = 0");
  rapt::Strided by_length(2);
  const Tensor lengths = filled(DType::i64, {}, 3);
  by_length.lengths = lengths;
  rejected(by_length, "the anchor is top-left");
}

}  // namespace
}  // namespace laws
