// Runs of keys, and the blocks that a walk over the keys visits.
#include "attention/tiles/key_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "rapt/mask/and.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/not.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"
#include "rapt/tensor.h"

namespace laws {
namespace {

using rapt::BoundMask;
using rapt::BoundMasks;
using rapt::KeyRange;
using rapt::KeyWalk;
using rapt::Positions;
using Runs = std::vector<std::pair<int64_t, int64_t>>;

constexpr int64_t kLength = 4096;  // of queries and of keys

// Masks that are bound to the only head of a problem.
struct HeadMasks {
  explicit HeadMasks(std::vector<const rapt::Mask*> all)
      : masks(std::move(all)),
        slots(static_cast<size_t>(BoundMasks::slots(masks))),
        bound(masks, {nullptr, 0, kLength, kLength}, slots.data()) {}

  Runs runs(Positions queries) const {
    Runs found;
    for (KeyRange run = bound.next_run(queries, 0); run.begin < run.end;
         run = bound.next_run(queries, run.end))
      found.emplace_back(run.begin, run.end);
    return found;
  }
  std::vector<int64_t> blocks(Positions queries, KeyRange within, int64_t length,
                              int64_t origin = 0) const {
    std::vector<int64_t> found;
    for (KeyWalk walk(bound, queries, within, length, origin); walk.next();)
      found.push_back(walk.begin());
    return found;
  }

  Runs attended(Positions queries, KeyRange within, int64_t length) const {
    Runs found;
    for (KeyWalk walk(bound, queries, within, length); walk.next();) {
      const KeyRange keys = walk.attended();
      found.emplace_back(keys.begin, keys.end);
    }
    return found;
  }

  std::vector<const rapt::Mask*> masks;
  std::vector<BoundMask> slots;
  BoundMasks bound;
};

const rapt::Window kWindow(255, 0);
const rapt::Prefix kPrefix(16);
const rapt::Or kGapped{&kWindow, &kPrefix};

TEST(KeyRuns, OrFindsTheGapBetweenItsParts) {
  EXPECT_EQ(HeadMasks({&kGapped}).runs({1000, 1, 64}), (Runs{{0, 16}, {745, 1064}}));
  EXPECT_EQ(HeadMasks({&kGapped}).runs({10, 1, 64}), (Runs{{0, 74}}));
}

TEST(KeyRuns, AndIntersectsRuns) {
  const rapt::Prefix twenty(20), front(900);
  const rapt::Not late(&front);
  const rapt::Or second{&twenty, &late};
  const Runs expected = {{0, 16}, {900, 1064}};
  EXPECT_EQ(HeadMasks({&kGapped, &second}).runs({1000, 1, 64}), expected);
  const rapt::And both{&kGapped, &second};
  EXPECT_EQ(HeadMasks({&both}).runs({1000, 1, 64}), expected);
  const rapt::Causal causal;
  EXPECT_EQ(HeadMasks({&kGapped, &causal}).runs({1000, 1, 64}), (Runs{{0, 16}, {745, 1064}}));
}

TEST(KeyRuns, DocumentsOutOfOrderHaveGaps) {
  rapt::Tensor ids(rapt::DType::i64, {kLength});
  int64_t i = 0;
  for (int64_t& id : ids.values<int64_t>()) id = i++ / 512 % 2;
  const rapt::Documents documents(ids);
  EXPECT_EQ(HeadMasks({&documents}).runs({512, 1, 64}),
            (Runs{{512, 1024}, {1536, 2048}, {2560, 3072}, {3584, 4096}}));
  EXPECT_EQ(HeadMasks({&documents}).runs({500, 1, 64}), (Runs{{0, 4096}}));
}

// Gaps of a few keys are not worth another question, and no question searches all keys.
TEST(KeyRuns, DocumentsOutOfOrderAnswerSoon) {
  rapt::Tensor ids(rapt::DType::i64, {kLength});
  int64_t i = 0;
  for (int64_t& id : ids.values<int64_t>()) id = -(i++ % 2);
  const rapt::Documents alternating(ids);
  EXPECT_EQ(HeadMasks({&alternating}).runs({0, 2, 64}), (Runs{{0, kLength - 1}}));

  constexpr int64_t kKeys = 20000;
  rapt::Tensor query_id(rapt::DType::i64, {1}), key_ids(rapt::DType::i64, {kKeys});
  query_id.values<int64_t>()[0] = 1;
  std::ranges::fill(key_ids.values<int64_t>(), 0);
  key_ids.values<int64_t>()[0] = key_ids.values<int64_t>()[kKeys - 1] = 1;
  key_ids.values<int64_t>()[1] = 2;  // not sorted
  const rapt::Documents far(query_id, key_ids);
  BoundMask slot{&far, nullptr, {}, 1, kKeys};
  far.bind({nullptr, 0, 1, kKeys}, &slot);
  int64_t from = 0, runs = 0;
  for (KeyRange run = far.next_run(slot, {0, 1, 1}, 0); run.begin < run.end; ++runs) {
    EXPECT_LE(run.begin - from, 4096);
    from = run.end;
    run = far.next_run(slot, {0, 1, 1}, from);
  }
  EXPECT_EQ(from, kKeys);
  EXPECT_LE(runs, 6);
}

// An answer that ignores where the walk is costs time, not keys.
TEST(KeyRuns, AWrongAnswerLosesNoKeys) {
  struct Stuck final : rapt::Mask {
    const rapt::Declaration& declaration() const noexcept override { return kDeclaration; }
    void check(rapt::Shape, int64_t, int64_t) const override {}
    void bind(const rapt::Head&, BoundMask*) const noexcept override {}
    KeyRange key_range(const BoundMask& bound, Positions) const noexcept override {
      return {0, bound.k_len};
    }
    KeyRange next_run(const BoundMask&, Positions, int64_t) const noexcept override {
      return {0, 16};
    }
    rapt::Cover cover(const BoundMask&, Positions, Positions) const noexcept override {
      return rapt::Cover::all;
    }
    void exclude(const BoundMask&, Positions, Positions, uint64_t*) const noexcept override {}
    const rapt::Declaration kDeclaration = {"stuck", "", "", {}};
  } const stuck;
  EXPECT_EQ(HeadMasks({&stuck}).runs({0, 1, 1}), (Runs{{0, 16}, {16, kLength}}));
}

TEST(KeyRuns, WithoutMasksAllKeysAreOne) {
  EXPECT_EQ(HeadMasks({}).runs({3, 1, 5}), (Runs{{0, 4096}}));
}

TEST(KeyWalk, VisitsTheBlocksOfRunsOnce) {
  const HeadMasks bound({&kGapped});
  const Positions queries{1000, 1, 64};
  const KeyRange all{0, kLength};
  using Blocks = std::vector<int64_t>;
  EXPECT_EQ(bound.blocks(queries, all, 128), (Blocks{0, 640, 768, 896, 1024}));
  EXPECT_EQ(bound.blocks(queries, {700, 900}, 128), (Blocks{640, 768, 896}));
  EXPECT_EQ(bound.blocks(queries, {800, 900}, 128), (Blocks{768, 896}));
  EXPECT_EQ(bound.blocks(queries, {16, 745}, 128), Blocks());
  EXPECT_EQ(bound.blocks(queries, {20, 20}, 128), Blocks());
  // Two runs in one block.
  EXPECT_EQ(bound.blocks(queries, all, 1024), (Blocks{0, 1024}));
  EXPECT_EQ(bound.blocks(queries, all, kLength), (Blocks{0}));
  // Blocks counted from another key, of a length that is no power of two.
  EXPECT_EQ(bound.blocks(queries, {10, 1000}, 96, 10), (Blocks{10, 682, 778, 874, 970}));
}

TEST(KeyWalk, FindsTheAttendedKeysOfABlock) {
  const HeadMasks masks({&kGapped});
  const Positions queries{1000, 1, 64};
  EXPECT_EQ(masks.attended(queries, {0, kLength}, 128),
            (Runs{{0, 16}, {745, 768}, {768, 896}, {896, 1024}, {1024, 1064}}));
  EXPECT_EQ(masks.attended(queries, {5, 1000}, 128),
            (Runs{{5, 16}, {745, 768}, {768, 896}, {896, 1000}}));
  EXPECT_EQ(masks.attended(queries, {0, kLength}, 1024), (Runs{{0, 1024}, {1024, 1064}}));
  EXPECT_EQ(masks.attended(queries, {0, kLength}, kLength), (Runs{{0, 1064}}));
}

}  // namespace
}  // namespace laws
