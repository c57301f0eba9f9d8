#pragma once
// BigBird: queries and keys are cut into blocks of `block` positions. With P = floor((i + o) /
// block) and K = floor(j / block), query i may attend to key j where
//   K < global  or  P < global (the first blocks attend to all and are attended to by all),
//   |P - K| <= (window - 1) / 2,
//   or K is one of the `random` blocks of row P, drawn from those that are neither global nor in
//   the window. o is as in causal.h.
// A row with fewer such blocks than `random` gets all of them: this happens in short sequences of a
// packed call alone, because check() rejects it.
//
// The random blocks follow from seed, head and P; nothing is stored. The head is the index in the
// last leading dimension, so that all batches have the same blocks. They are drawn without
// repetition (Floyd's algorithm) by counter-based random numbers (Philox4x32-10).
//
// The authors' code draws other blocks, whose lists blocks.h can hold (rapt/block_layout.h).
// Source: Zaheer et al. 2020 (BigBird), arXiv:2007.14062, section 2; Bentley & Floyd 1987, "A
// sample of brilliance".
//
// Cost, for a tile of k keys that touches r rows of blocks: key_range, next_run and cover
// O(r (1 + random)), exclude O(r (random + k)). next_run is asked once per run of keys, up
// to r random times for a tile, so small blocks with many random ones cost most.
#include "rapt/mask/mask.h"

namespace rapt {

class BigBird final : public Mask {
 public:
  static constexpr int64_t kMostRandom = 64;  // blocks that a row can draw

  int64_t block = 0;    // positions per block, >= 1
  int64_t window = 0;   // blocks of the window, odd; 1: the row's own
  int64_t global = -1;  // blocks at the beginning that attend to all and are attended to by all
  int64_t random = -1;  // random blocks per row, at most kMostRandom
  int64_t seed = 0;     // >= 0
  Anchor anchor = Anchor::top_left;

  BigBird() = default;  // without a block; check() rejects it
  BigBird(int64_t length, int64_t around, int64_t first, int64_t drawn, int64_t by_seed = 0,
          Anchor at = Anchor::top_left)
      : block(length), window(around), global(first), random(drawn), seed(by_seed), anchor(at) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  KeyRange next_run(const BoundMask& bound, Positions queries,
                    int64_t from) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;
  int64_t query_group() const noexcept override { return block; }
};

}  // namespace rapt
