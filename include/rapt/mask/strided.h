#pragma once
// The strided pattern of sparse transformers: with p = i + o, o as in causal.h, query i may attend
// to key j <= p where
//   p - j <= stride  or  p - j is a multiple of stride.
// So it attends to the last `stride` positions and to every stride-th one before them. In images
// with rows of `stride` pixels these are the pixels since the one above, and its column. The
// authors give both parts to a head, or one part each to heads that take turns; each part is a mask
// of its own: window(stride,0), and dilated(k_len,stride) & causal.
// Source: Child et al. 2019, arXiv:1904.10509, section 4.3.
#include "rapt/mask/mask.h"

namespace rapt {

class Strided final : public Mask {
 public:
  int64_t stride = 0;  // >= 1
  Anchor anchor = Anchor::top_left;
  TensorView lengths;  // as in causal.h: the bottom-right corner of each batch; or absent

  Strided() = default;  // without a stride; check() rejects it
  explicit Strided(int64_t apart, Anchor at = Anchor::top_left) : stride(apart), anchor(at) {}
  Strided(int64_t apart, const TensorView& counts)
      : stride(apart), anchor(Anchor::bottom_right), lengths(counts) {}
  template <TemporaryTensor T>
  Strided(int64_t, T&&) = delete;

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
