// Neighbourhoods: rows worked out by hand in one, two and three dimensions, runs and covers without
// slack, grids whose last row is incomplete, equal masks, and what is rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "mask/bound_head.h"
#include "rapt/mask/chunked.h"
#include "rapt/mask/neighborhood.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

TEST(NeighborhoodMask, WindowsKeepTheirSizeAtTheEdges) {
  const rapt::Neighborhood line({3, 6});
  const BoundHead one(line, 6, 6);
  EXPECT_EQ(one.row(0), "xxx...");
  EXPECT_EQ(one.row(1), "xxx...");
  EXPECT_EQ(one.row(2), ".xxx..");
  EXPECT_EQ(one.row(5), "...xxx");
  const rapt::Neighborhood image({3, 4}, {3, 5});
  const BoundHead two(image, 20, 20);
  EXPECT_EQ(two.row(0), "xxx..xxx..xxx.......");   // row 0, column 0
  EXPECT_EQ(two.row(12), "......xxx..xxx..xxx.");  // row 2, column 2
  EXPECT_EQ(two.row(19), ".......xxx..xxx..xxx");  // row 3, column 4
  const rapt::Neighborhood video({1, 2}, {3, 2}, {1, 3});
  EXPECT_EQ(BoundHead(video, 12, 12).row(7), ".......x..x.");  // frame 1, both rows, column 1
  const rapt::Neighborhood anchored({3, 6}, rapt::Anchor::bottom_right);
  EXPECT_EQ(BoundHead(anchored, 2, 6).row(0), "...xxx");
}

TEST(NeighborhoodMask, RunsHaveNoSlack) {
  const rapt::Neighborhood mask({7, 56}, {7, 56});
  const BoundHead head(mask, 3136, 3136);
  std::vector<Keys> part;  // row 10, columns 8 to 55: rows 7 to 13, columns 5 to 55
  for (int64_t row = 7; row < 14; ++row) part.emplace_back(row * 56 + 5, row * 56 + 56);
  EXPECT_EQ(head.runs(568, 48), part);
  EXPECT_EQ(head.runs(560, 112), (std::vector{Keys(7 * 56, 15 * 56)}));
  EXPECT_EQ(head.range(568, 48), Keys(7 * 56 + 5, 14 * 56));
}

TEST(NeighborhoodMask, CoversHaveNoSlack) {
  using rapt::Cover;
  const rapt::Neighborhood mask({7, 56}, {7, 56});
  const BoundHead head(mask, 3136, 3136);
  const rapt::Positions queries{10 * 56 + 20, 1, 3};  // row 10, columns 20 to 22
  EXPECT_EQ(head.cover(queries, {7 * 56 + 19, 1, 5}), Cover::all);
  EXPECT_EQ(head.cover(queries, {7 * 56 + 19, 1, 6}), Cover::some);
  EXPECT_EQ(head.cover(queries, {7 * 56 + 26, 1, 47}), Cover::none);
  EXPECT_EQ(head.cover(queries, {7 * 56 + 26, 1, 48}), Cover::some);
  EXPECT_EQ(head.cover(queries, {6 * 56, 1, 56}), Cover::none);
}

TEST(NeighborhoodMask, IncompleteLastRow) {
  rapt::Neighborhood mask({3, 0}, {3, 4});
  const BoundHead head(mask, 13, 10);
  EXPECT_EQ(head.row(9), "xxx.xxx.xx");   // row 2, column 1
  EXPECT_EQ(head.row(11), ".xxx.xxx.x");  // row 2, column 3, which is no key
  EXPECT_EQ(head.row(12), "..........");  // beyond the grid
}

// A sequence of a packed call is a grid of its own: as many points of dimension 1 as its keys need,
// not as many as the keys of all sequences that check() sees.
TEST(NeighborhoodMask, GridsOfPackedSequences) {
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {2, 24, 8});
  int64_t begins[] = {0, 12, 24};
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    options.packed.query_starts = rapt::TensorView(begins, {3});
    return scaled_dot_product_attention(x, x, x, options);
  };
  const AttentionResult expected = attended(rapt::Neighborhood({3, 0}, {3, 4}));
  EXPECT_TRUE(same_results(attended(rapt::Neighborhood({3, 6}, {3, 4})), expected));
  const rapt::Neighborhood of_both({3, 6}, {3, 4});
  rapt::BoundMask sequence{&of_both, nullptr, {}, 12, 12};
  of_both.bind({nullptr, 0, 12, 12}, &sequence);
  uint64_t bits[12];
  std::fill(std::begin(bits), std::end(bits), 1);
  of_both.exclude(sequence, {11, 1, 1}, {0, 1, 12}, bits);
  std::string row;
  for (const uint64_t bit : bits) row += bit & 1 ? 'x' : '.';
  EXPECT_EQ(row, ".xxx.xxx.xxx");  // row 2 of 3, column 3
}

TEST(NeighborhoodMask, EqualMasks) {
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {2, 140, 8});
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(x, x, x, options);
  };
  const int64_t widest = (int64_t{1} << 53) - 1;
  EXPECT_TRUE(
      same_results(attended(rapt::Neighborhood({1, 20}, {widest, 7})), attended(rapt::Chunked(7))));
  EXPECT_TRUE(same_results(attended(rapt::Neighborhood({1, 0}, {widest, 32})),
                           attended(rapt::Chunked(32))));  // tiles end with chunks
  EXPECT_TRUE(same_results(attended(rapt::Neighborhood({5, 10}, {3, 14})),
                           attended(rapt::Neighborhood({5, 0}, {1, 1}, {3, 14}))));
  EXPECT_TRUE(
      same_results(attended(rapt::Neighborhood({widest, 140})), attended(rapt::Window(-1, -1))));
  EXPECT_TRUE(same_results(attended(rapt::Neighborhood({1, 140})), attended(rapt::Window(0, 0))));
}

TEST(NeighborhoodMask, Rejections) {
  const auto rejected = [](const rapt::Neighborhood& mask, const char* words) {
    expect_error(rapt::ErrorCode::argument, {words}, [&] { mask.check({}, 6, 6); });
  };
  rejected(rapt::Neighborhood(), "window1 = 0");
  rejected(rapt::Neighborhood({4, 6}), "a window of 4 points; expected an odd number");
  rejected(rapt::Neighborhood({3, 3}, {2, 2}), "a window of 2 points; expected an odd number");
  rejected(rapt::Neighborhood({3, 2}, {3, 2}), "a grid of 2 x 2 x 1 points for k_len = 6");
  rejected(rapt::Neighborhood({3, 3}, {3, 0}), "length2 = 0");
  rejected(rapt::Neighborhood({3, int64_t{1} << 53}, {3, 1 << 20}), "points for k_len = 6");
}

}  // namespace
}  // namespace laws
