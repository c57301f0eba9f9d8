// Chunks: rows worked out by hand, ranges and covers without slack, equal masks, and what is
// rejected.
#include <gtest/gtest.h>

#include "mask/bound_head.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/chunked.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

TEST(Chunks, RowsByHand) {
  const rapt::Chunked own(3);
  EXPECT_EQ(BoundHead(own, 8, 8).row(4), "...xxx..");
  EXPECT_EQ(BoundHead(own, 8, 8).row(7), "......xx");
  const rapt::Chunked both(3, 1, 1);
  EXPECT_EQ(BoundHead(both, 10, 10).row(4), "xxxxxxxxx.");
  const rapt::Chunked causal(3, -1);
  EXPECT_EQ(BoundHead(causal, 10, 10).row(6), "xxxxxxxxx.");
  const rapt::Chunked anchored(3, 0, 0, rapt::Anchor::bottom_right);
  EXPECT_EQ(BoundHead(anchored, 2, 8).row(0), "......xx");
  EXPECT_EQ(BoundHead(anchored, 8, 4).row(0), "....");  // at position -4
  EXPECT_EQ(BoundHead(anchored, 8, 4).row(4), "xxx.");
}

TEST(Chunks, RangesAndCoversHaveNoSlack) {
  using rapt::Cover;
  const rapt::Chunked mask(100, 1);
  const BoundHead head(mask, 1000, 1000);
  EXPECT_EQ(head.range(320, 10), Keys(200, 400));
  EXPECT_EQ(head.range(395, 10), Keys(200, 500));
  EXPECT_EQ(head.cover({320, 1, 10}, {200, 1, 200}), Cover::all);
  EXPECT_EQ(head.cover({320, 1, 10}, {199, 1, 10}), Cover::some);
  EXPECT_EQ(head.cover({320, 1, 10}, {400, 1, 10}), Cover::none);
  EXPECT_EQ(head.cover({395, 1, 10}, {300, 1, 100}), Cover::all);
  EXPECT_EQ(head.cover({395, 1, 10}, {299, 1, 10}), Cover::some);
}

TEST(Chunks, EqualMasks) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 70, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 300, 8});
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(query, key, key, options);
  };
  const int64_t most = int64_t{1} << 53;
  for (const rapt::Anchor anchor : {rapt::Anchor::top_left, rapt::Anchor::bottom_right}) {
    EXPECT_TRUE(same_results(attended(rapt::Chunked(1, 7, 3, anchor)),
                             attended(rapt::Window(7, 3, anchor))));
    EXPECT_TRUE(
        same_results(attended(rapt::Chunked(1, -1, 0, anchor)), attended(rapt::Causal(anchor))));
  }
  const rapt::Window all(-1, -1);
  EXPECT_TRUE(same_results(attended(rapt::Chunked(7, -1, -1)), attended(all)));
  EXPECT_TRUE(same_results(attended(rapt::Chunked(most, most, most)), attended(all)));
}

TEST(Chunks, Rejections) {
  const auto rejected = [](const rapt::Chunked& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 4, 4); });
  };
  rejected(rapt::Chunked(), "size = 0");
  rejected(rapt::Chunked(3, -2), "back = -2");
  rejected(rapt::Chunked(3, 0, -2), "forward = -2");
  rapt::Chunked by_length(2);
  const Tensor lengths = filled(DType::i64, {}, 3);
  by_length.lengths = lengths;
  rejected(by_length, "the anchor is top-left");
}

}  // namespace
}  // namespace laws
