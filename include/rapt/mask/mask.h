#pragma once
// The interface of a mask: who may attend to whom. True = may attend, as in PyTorch's
// scaled_dot_product_attention and ONNX Attention (nn.MultiheadAttention means the opposite).
//
// A mask is portable C++ without SIMD: it is asked once per tile, not once per score, so a virtual
// call costs nothing. To write one, derive from Mask here or outside the library; see causal.h.
#include <cstdint>
#include <span>

#include "rapt/anchor.h"
#include "rapt/declaration.h"
#include "rapt/positions.h"

namespace rapt {

class Mask;

// How much of a tile is allowed: a tile of `none` is not computed, one of `all` costs nothing more.
enum class Cover : uint8_t { none, some, all };

struct KeyRange {  // the positions [begin, end) of keys
  int64_t begin, end;
};

// A mask bound to one (batch, head): what the mask needs there, computed once per task. Plain data,
// so that binding allocates nothing. A mask that is made of others takes a slot for itself and the
// slots of its parts behind it.
struct BoundMask {
  const Mask* mask = nullptr;
  const void* data = nullptr;
  int64_t values[4] = {};  // meaning: the mask's own
  int64_t q_len = 0, k_len = 0;
};

class Mask {  // the base of all masks; one object serves any number of calls at once
 public:
  virtual ~Mask() = default;

  virtual const Declaration& declaration() const noexcept = 0;

  // The masks that this one is made of, so that a call can look at their tensors, and a spec can
  // name them. Those of And, Or and Not; a mask of your own that holds others should tell, too.
  virtual std::span<const Mask* const> parts() const noexcept { return {}; }

  // Do the parameters fit a problem whose output has the leading dimensions `leading`?
  // Called once per call, at the border. Throws Error(shape, dtype, argument).
  virtual void check(Shape leading, int64_t q_len, int64_t k_len) const = 0;

  // How many consecutive slots bind() fills.
  virtual int bound_slots() const noexcept { return 1; }

  // Fills in `data` and `values` of bound[0]; its other members are set, and further slots are the
  // mask's own to fill. This and every function below may run in several threads at once.
  virtual void bind(const Head& head, BoundMask* bound) const noexcept = 0;

  // A range of positions outside of which none of these queries sees a key; [0, k_len) if unknown.
  virtual KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept = 0;

  // How much of queries x keys is allowed? `some` is always a correct answer.
  virtual Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept = 0;

  // Clears bit i of bits[j] where query i may not attend to key j. queries.count <= 64; bits at and
  // above it may be left as they are. Only called for tiles whose cover is `some`.
  virtual void exclude(const BoundMask& bound, Positions queries, Positions keys,
                       uint64_t* bits /* [keys.count] */) const noexcept = 0;
};

// The lowest n bits set, for any n.
inline uint64_t low_bits(int64_t n) noexcept {
  return n <= 0 ? 0 : n >= 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

// How many of `queries` stand less than `distance` after the first of them; not capped by their
// count.
inline int64_t queries_before(int64_t distance, Positions queries) noexcept {
  if (distance <= 0) return 0;
  // A step of 1 is nearly every call, and a division per key would show in the time.
  return queries.step == 1 ? distance : (distance + queries.step - 1) / queries.step;
}

inline int64_t offset_of(Anchor anchor, const BoundMask& bound) noexcept {
  return anchor == Anchor::bottom_right ? bound.k_len - bound.q_len : 0;
}

}  // namespace rapt
