#pragma once
// The interface of a mask, which says which query may attend to which key. True = may attend, as in
// PyTorch's scaled_dot_product_attention and ONNX Attention (nn.MultiheadAttention means the
// opposite).
//
// A mask is portable C++ without SIMD. It is called once per tile, not once per score, so a virtual
// call costs nothing. To write one, derive from Mask here or outside the library; see causal.h.
#include <cstdint>
#include <span>

#include "rapt/anchor.h"
#include "rapt/declaration.h"
#include "rapt/positions.h"

namespace rapt {

class Mask;

// How many pairs of a tile are allowed. A tile of `none` is not computed, and a tile of `all` needs
// no masking.
enum class Cover : uint8_t { none, some, all };

struct KeyRange {  // the positions [begin, end) of keys
  int64_t begin, end;
};

// A mask bound to one (batch, head): the data that it needs there, computed once per task. Plain
// data, so that binding allocates nothing. A mask that combines others has a slot of its own,
// followed by the slots of its parts.
struct BoundMask {
  const Mask* mask = nullptr;
  const void* data = nullptr;
  int64_t values[4] = {};  // each mask gives them its own meaning
  int64_t q_len = 0, k_len = 0;
};

class Mask {  // the base of all masks; one object serves any number of calls at once
 public:
  virtual ~Mask() = default;

  virtual const Declaration& declaration() const noexcept = 0;

  // The masks that this one combines. A call checks their tensors, and a spec names them. And, Or
  // and Not have parts; a mask of your own that holds other masks should return them, too.
  virtual std::span<const Mask* const> parts() const noexcept { return {}; }

  // Checks that the parameters fit a problem whose output has the leading dimensions `leading`.
  // Called once per call, before any computation. Throws Error(shape, dtype, argument).
  virtual void check(Shape leading, int64_t q_len, int64_t k_len) const = 0;

  // The number of consecutive slots that bind() fills.
  virtual int bound_slots() const noexcept { return 1; }

  // Fills in `data` and `values` of bound[0], whose other members are set, and all members of
  // further slots. Keeps no pointer to `head` or to its index. This and every function below may
  // run in several threads at once.
  virtual void bind(const Head& head, BoundMask* bound) const noexcept = 0;

  // A range of positions outside of which none of these queries attends to a key; [0, k_len) if
  // unknown.
  virtual KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept = 0;

  // The first run of keys [begin, end) with end > from that some of these queries may attend to.
  // None of them attends to a key of [from, begin). Empty: none attends to any key from `from` on.
  // 0 <= from <= k_len. Default: what is left of key_range() from `from` on. A mask with gaps among
  // its keys should find them: whole blocks of keys (96 or 128) in a gap are neither loaded nor
  // packed. A run may hold keys to which no query attends, and the next one may follow without a
  // gap, so a mask need not search far. A class derived from such a mask that overrides key_range()
  // overrides next_run(), too.
  virtual KeyRange next_run(const BoundMask& bound, Positions queries,
                            int64_t from) const noexcept {
    const KeyRange range = key_range(bound, queries);
    return {from > range.begin ? from : range.begin, from > range.end ? from : range.end};
  }

  // How many of the pairs queries x keys are allowed. `some` is always a correct answer.
  virtual Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept = 0;

  // Clears bit i of bits[j] where query i may not attend to key j. queries.count <= 64; bits from
  // queries.count on may keep any value. Called only for tiles whose cover is `some`.
  virtual void exclude(const BoundMask& bound, Positions queries, Positions keys,
                       uint64_t* bits /* [keys.count] */) const noexcept = 0;

  // The number of neighbouring queries that attend to the same keys, counted from query 0 where the
  // mask's anchor is top-left: 64 for blocks of 64 queries. Tiles of queries then begin and end
  // with such groups where the kernel has a fitting width, because a tile that holds parts of two
  // groups computes the keys of both. No result depends on it. 1: no groups.
  virtual int64_t query_group() const noexcept { return 1; }
};

// A word whose lowest n bits are set, for any n.
inline uint64_t low_bits(int64_t n) noexcept {
  return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// The number of `queries` that are less than `distance` positions after the first query; not capped
// by queries.count.
inline int64_t queries_before(int64_t distance, Positions queries) noexcept {
  if (distance <= 0) return 0;
  // Nearly all calls have a step of 1, and a division per key would take measurable time.
  return queries.step == 1 ? distance : (distance + queries.step - 1) / queries.step;
}

inline int64_t offset_of(Anchor anchor, const BoundMask& bound) noexcept {
  return anchor == Anchor::bottom_right ? bound.k_len - bound.q_len : 0;
}

}  // namespace rapt
