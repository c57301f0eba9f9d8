#pragma once
// Global tokens: query i may attend to key j where
//   i + o is a global position  or  j is a global position,
// with o as in causal.h. So global tokens attend to all keys, and all queries attend to them.
// Combined with a window by "or" it is Longformer's mask. Global positions are the first `count`,
// or those of a tensor, for each batch.
// Source: Beltagy et al. 2020 (Longformer), arXiv:2004.05150, section 3.1.
//
// Cost, for a tile of q queries and k keys, g global positions: key_range, cover and next_run
// O(log g); exclude O(q + k + log g). With a tensor and steps other than 1 these are
// O((q + k) log g).
#include "rapt/mask/mask.h"

namespace rapt {

class Global final : public Mask {
 public:
  int64_t count = 0;  // positions 0 to count - 1 are global; 0 if `positions` is given
  Anchor anchor = Anchor::top_left;
  // int64 [..., g], instead of `count`: the global positions of each batch, each greater than the
  // one before. -1 is no position; where batches have fewer than g, a row begins with them. Leading
  // dimensions are aligned with the FIRST ones of the output, each equal or 1. May be absent.
  TensorView positions;

  Global() = default;
  explicit Global(int64_t first, Anchor at = Anchor::top_left) : count(first), anchor(at) {}
  explicit Global(const TensorView& at) : positions(at) {}
  Global(const TensorView& at, Anchor corner) : anchor(corner), positions(at) {}
  template <TemporaryTensor T>
  explicit Global(T&&) = delete;
  template <TemporaryTensor T>
  Global(T&&, Anchor) = delete;

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
};

}  // namespace rapt
