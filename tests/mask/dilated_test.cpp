// The dilated window: rows worked out by hand, ranges and covers without slack, equal masks, and
// what is rejected.
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "rapt/mask/causal.h"
#include "rapt/mask/dilated.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

struct DilatedHead {  // a mask bound to one head
  DilatedHead(const rapt::Dilated& m, int64_t q_len, int64_t k_len)
      : mask(m), bound{&m, nullptr, {}, q_len, k_len} {
    mask.check({}, q_len, k_len);
    mask.bind({nullptr, 0, q_len, k_len}, &bound);
  }
  // The keys that each query may attend to, as text: "x.x" for keys 0 and 2.
  std::string row(int64_t query) const {
    std::string text;
    for (int64_t key = 0; key < bound.k_len; ++key) {
      uint64_t bits = 1;
      mask.exclude(bound, {query, 1, 1}, {key, 1, 1}, &bits);
      text += bits & 1 ? 'x' : '.';
    }
    return text;
  }
  rapt::Cover cover(rapt::Positions queries, rapt::Positions keys) const {
    return mask.cover(bound, queries, keys);
  }
  std::pair<int64_t, int64_t> range(int64_t begin, int64_t count) const {
    const rapt::KeyRange r = mask.key_range(bound, {begin, 1, count});
    return {r.begin, r.end};
  }

  const rapt::Dilated& mask;
  rapt::BoundMask bound;
};

TEST(Dilated, RowsByHand) {
  const rapt::Dilated two(2, 3);
  const DilatedHead square(two, 10, 10);
  EXPECT_EQ(square.row(0), "x..x..x...");
  EXPECT_EQ(square.row(4), ".x..x..x..");
  EXPECT_EQ(square.row(9), "...x..x..x");
  const rapt::Dilated anchored(1, 2, rapt::Anchor::bottom_right);
  const DilatedHead wide(anchored, 2, 6);
  EXPECT_EQ(wide.row(0), "..x.x.");
  EXPECT_EQ(wide.row(1), "...x.x");
  const rapt::Dilated alone(0, 5);
  EXPECT_EQ(DilatedHead(alone, 3, 3).row(1), ".x.");
}

TEST(Dilated, RangesHaveNoSlack) {
  using P = std::pair<int64_t, int64_t>;
  const rapt::Dilated mask(2, 3);
  const DilatedHead head(mask, 100, 100);
  EXPECT_EQ(head.range(50, 1), P(44, 57));
  EXPECT_EQ(head.range(50, 10), P(44, 66));
  EXPECT_EQ(head.range(4, 1), P(1, 11));    // 4 - 6 is before key 0
  EXPECT_EQ(head.range(4, 2), P(1, 12));    // 5 begins at key 2
  EXPECT_EQ(head.range(4, 3), P(0, 13));    // 6 begins at key 0
  EXPECT_EQ(head.range(95, 1), P(89, 99));  // 95 + 3, as 95 + 6 is no key
  const DilatedHead few(mask, 100, 2);
  EXPECT_EQ(few.range(5, 1), P(0, 0));  // 5 and 2 are no keys
  EXPECT_EQ(few.range(8, 1), P(0, 0));
  EXPECT_EQ(few.range(7, 1), P(1, 2));
}

TEST(Dilated, CoversHaveNoSlack) {
  using rapt::Cover;
  const rapt::Dilated mask(2, 3);
  const DilatedHead head(mask, 100, 100);
  EXPECT_EQ(head.cover({50, 1, 1}, {53, 1, 1}), Cover::all);
  EXPECT_EQ(head.cover({50, 1, 1}, {54, 1, 2}), Cover::none);
  EXPECT_EQ(head.cover({50, 1, 1}, {54, 1, 3}), Cover::some);
  EXPECT_EQ(head.cover({50, 1, 2}, {58, 1, 9}), Cover::none);
  EXPECT_EQ(head.cover({50, 1, 2}, {57, 1, 9}), Cover::some);
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
