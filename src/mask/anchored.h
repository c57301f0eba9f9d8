#pragma once
// The offset of masks that have an anchor: the position of the first query among the keys. A tensor
// of lengths may move the anchor.
#include "mask/per_batch.h"
#include "rapt/mask/mask.h"

namespace rapt {

// `what` names mask and tensor for messages, as in per_batch.h: "mask causal: lengths". Throws
// Error(argument, shape, dtype).
inline void check_anchor(const char* what, Anchor anchor, const TensorView& lengths, Shape leading,
                         int64_t k_len) {
  if (!lengths.defined()) return;
  if (anchor != Anchor::bottom_right)
    throw Error(ErrorCode::argument, std::string(what) +
                                         " say where the bottom-right corner is, but the anchor "
                                         "is top-left; expected bottom-right");
  check_per_batch(what, lengths, leading);
  for_each_of(lengths, [&](int64_t length) {
    if (length < 0 || length > k_len)
      throw Error(ErrorCode::argument, std::string(what) + ": a length of " +
                                           std::to_string(length) +
                                           " keys; expected 0 to k_len = " + std::to_string(k_len));
  });
}

inline int64_t offset_of(Anchor anchor, const TensorView& lengths, const Head& head,
                         const BoundMask& bound) noexcept {
  if (!lengths.defined()) return offset_of(anchor, bound);
  return static_cast<const int64_t*>(lengths.data)[offset_of(lengths, head)] - bound.q_len;
}

}  // namespace rapt
