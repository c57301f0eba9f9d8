// BigBird's blocks; the formula is in the header. Bound: values[0] = o, values[1] = the head, if
// blocks are drawn.
#include "rapt/mask/bigbird.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "base/philox.h"
#include "mask/block_rows.h"

namespace rapt {
namespace {

constexpr double kMostInteger = 9007199254740992.0;  // 2^53

constexpr Parameter kParameters[] = {
    parameter<BigBird, &BigBird::block>("block", "queries, and keys, of a block", {1, kMostInteger},
                                        {}, true),
    parameter<BigBird, &BigBird::window>(
        "window", "blocks around its own that a query may attend to, its own included; odd",
        {1, kMostInteger}, {}, true),
    parameter<BigBird, &BigBird::global>(
        "global", "blocks at the beginning that attend to all and are attended to by all",
        {0, kMostInteger}, {}, true),
    parameter<BigBird, &BigBird::random>(
        "random", "other blocks that a query may attend to, drawn for each head and block",
        {0, BigBird::kMostRandom}, {}, true),
    parameter<BigBird, &BigBird::seed>("seed", "of the random blocks", {0, kMostInteger}),
    parameter<BigBird, &BigBird::anchor>(
        "anchor", "which corner of the matrix the blocks of queries start at", kAnyNumber,
        kAnchorNames),
};

constexpr const char* kExamples[] = {"64,3,1,3", "2,1,1,2,7", "8,3,0,1", "1,3,2,2,1,bottom-right",
                                     "5,1,1,0"};

// Numbers that were drawn, of which a new one is asked whether it is among them.
class DrawnNumbers {
 public:
  DrawnNumbers() noexcept { std::fill(std::begin(slots_), std::end(slots_), kFree); }

  // Adds a number >= 0; false: it is there already.
  bool add(int64_t number) noexcept {
    int64_t slot = number % kSlots;
    for (; slots_[slot] != kFree; slot = (slot + 1) % kSlots)
      if (slots_[slot] == number) return false;
    slots_[slot] = number;
    return true;
  }

 private:
  static constexpr int64_t kSlots = 2 * BigBird::kMostRandom, kFree = -1;  // half stay free
  int64_t slots_[kSlots];
};

// The key blocks of a row: global ones, the window, random ones. Random ones are drawn when an
// answer depends on them.
class BigBirdRow {
 public:
  BigBirdRow(const BigBird& mask, const BoundMask& bound, int64_t row) noexcept
      : mask_(mask),
        head_(bound.values[1]),
        row_(row),
        all_(blocks_of(bound.k_len, mask.block)),
        global_(std::min(mask.global, all_)) {
    if (row >= 0 && row < mask.global) {
      add({0, all_});
      open_ = false;
      return;
    }
    const int64_t half = mask.window / 2;
    window_ = {std::clamp(row - half, global_, all_), std::clamp(row + half + 1, global_, all_)};
    add({0, global_});
    add(window_);
  }

  KeyRange next(int64_t from) noexcept {
    KeyRange nearest{INT64_MAX, INT64_MAX};
    const auto find = [&](int first) {
      for (int i = first; i < count_; ++i) {
        const int64_t begin = std::max(runs_[i].begin, from);
        if (runs_[i].end > from && begin < nearest.begin) nearest = {begin, runs_[i].end};
      }
    };
    find(0);
    if (nearest.begin > from && open_) {
      const int known = count_;
      draw();
      find(known);
    }
    return nearest.begin == INT64_MAX ? KeyRange{0, 0} : nearest;
  }

  int64_t end() noexcept {
    draw();
    int64_t end = 0;
    for (int i = 0; i < count_; ++i) end = std::max(end, runs_[i].end);
    return end;
  }

 private:
  void add(KeyRange blocks) noexcept {
    if (blocks.begin < blocks.end) runs_[count_++] = blocks;
  }

  // Candidates are the blocks that are neither global nor in the window, counted from 0.
  void draw() noexcept {
    if (!open_) return;
    open_ = false;
    const int64_t before = window_.begin - global_, candidates = before + all_ - window_.end;
    const int64_t count = std::min(mask_.random, candidates);
    // Each counter gives four numbers of 32 bits.
    const auto counter = static_cast<uint64_t>(row_) * (BigBird::kMostRandom / 4);
    DrawnNumbers drawn;
    PhiloxWords words{};
    for (int64_t n = 0; n < count; ++n) {
      if (n % 4 == 0)
        words = philox4x32_10(static_cast<uint64_t>(mask_.seed), static_cast<uint64_t>(head_),
                              counter + static_cast<uint64_t>(n) / 4);
      const int64_t last = candidates - count + n;
      const auto number = static_cast<uint32_t>((n % 4 < 2 ? words.even : words.odd) >> n % 2 * 32);
      const auto found = static_cast<int64_t>(number * static_cast<uint64_t>(last + 1) >> 32);
      int64_t taken = found;
      if (!drawn.add(found)) drawn.add(taken = last);
      const int64_t block = taken < before ? global_ + taken : window_.end + taken - before;
      add({block, block + 1});
    }
  }

  const BigBird& mask_;
  const int64_t head_, row_, all_, global_;  // all_: blocks of keys; global_: of them
  KeyRange window_{0, 0};                    // without global blocks
  bool open_ = true;                         // random blocks are to be drawn
  int count_ = 0;
  KeyRange runs_[BigBird::kMostRandom + 2];  // disjoint, in any order
};

// Calls answer(rows) with the rows of blocks that the queries touch.
template <class Answer>
auto answer_by_rows(const BigBird& mask, const BoundMask& bound, Positions queries,
                    const Answer& answer) noexcept {
  const BlockGrid grid{mask.block, mask.block, bound.values[0], bound.k_len};
  const auto row_at = [&](int64_t row) noexcept { return BigBirdRow(mask, bound, row); };
  return answer(BlockRows(grid, queries, row_at));
}

}  // namespace

const Declaration BigBird::kDeclaration = {
    "bigbird",
    "blocks of queries attend to global blocks, to their neighbours and to some random blocks",
    "Zaheer et al. 2020, arXiv:2007.14062, section 2", kParameters, kExamples};

void BigBird::check(Shape, int64_t q_len, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  if (window % 2 == 0)
    throw Error(ErrorCode::argument,
                "mask bigbird: window = " + std::to_string(window) +
                    "; expected an odd number of blocks, the query's own in the middle");
  const int64_t all = blocks_of(k_len, block);
  if (random > 0 && q_len > 0 && k_len > 0 && global + window + random > all)
    throw Error(ErrorCode::argument,
                "mask bigbird: " + std::to_string(global) + " global blocks, " +
                    std::to_string(window) + " of the window and " + std::to_string(random) +
                    " random ones; k_len = " + std::to_string(k_len) + " has " +
                    std::to_string(all) + " blocks of " + std::to_string(block));
}

void BigBird::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = offset_of(anchor, *bound);
  // Heads of a group that bind the same values share a pass over their keys.
  bound->values[1] = random > 0 && head.rank > 0 ? head.index[head.rank - 1] : 0;
}

KeyRange BigBird::key_range(const BoundMask& bound, Positions queries) const noexcept {
  return answer_by_rows(*this, bound, queries, [](const auto& rows) { return rows.key_range(); });
}

KeyRange BigBird::next_run(const BoundMask& bound, Positions queries, int64_t from) const noexcept {
  return answer_by_rows(*this, bound, queries,
                        [&](const auto& rows) { return rows.next_run(from); });
}

Cover BigBird::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  return answer_by_rows(*this, bound, queries, [&](const auto& rows) { return rows.cover(keys); });
}

void BigBird::exclude(const BoundMask& bound, Positions queries, Positions keys,
                      uint64_t* bits) const noexcept {
  answer_by_rows(*this, bound, queries, [&](const auto& rows) { rows.exclude(keys, bits); });
}

}  // namespace rapt
