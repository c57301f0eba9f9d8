#pragma once
// Dilated sliding window: query i may attend to key j where
//   |i + o - j| <= window step  and  i + o - j is a multiple of step,
// with o as in causal.h: `window` keys on each side, `step` positions apart, and the key at i + o
// itself. Combined with a causal mask by "and", the keys before the query remain. A step of 1 is
// Window(window, window). Source: Beltagy et al. 2020 (Longformer), arXiv:2004.05150, section 3.1.
#include "rapt/mask/mask.h"

namespace rapt {

class Dilated final : public Mask {
 public:
  int64_t window = -1;  // keys on each side, >= 0
  int64_t step = 0;     // from one key to the next, >= 1
  Anchor anchor = Anchor::top_left;
  TensorView lengths;  // as in causal.h: the bottom-right corner of each batch; or absent

  Dilated() = default;  // without a window; check() rejects it
  Dilated(int64_t keys, int64_t apart, Anchor at = Anchor::top_left)
      : window(keys), step(apart), anchor(at) {}
  Dilated(int64_t keys, int64_t apart, const TensorView& counts)
      : window(keys), step(apart), anchor(Anchor::bottom_right), lengths(counts) {}
  template <TemporaryTensor T>
  Dilated(int64_t, int64_t, T&&) = delete;

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
