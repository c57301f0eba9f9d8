#pragma once
// The fixed pattern of sparse transformers: positions form blocks of `stride`. With p = i + o, o as
// in causal.h, query i may attend to key j <= p where
//   floor(j / stride) = floor(p / stride)  or  j mod stride >= stride - summary.
// So it attends to its own block, and to the last `summary` positions of every block before, which
// sum up their blocks. The authors write l for stride and c for summary.
// Source: Child et al. 2019, arXiv:1904.10509, section 4.3.
#include "rapt/mask/mask.h"

namespace rapt {

class Fixed final : public Mask {
 public:
  int64_t stride = 0;   // positions of a block, >= 1
  int64_t summary = 0;  // its last positions, which all later queries may attend to; 1 to stride
  Anchor anchor = Anchor::top_left;
  TensorView lengths;  // as in causal.h: the bottom-right corner of each batch; or absent

  Fixed() = default;  // without blocks; check() rejects it
  Fixed(int64_t block, int64_t last, Anchor at = Anchor::top_left)
      : stride(block), summary(last), anchor(at) {}
  Fixed(int64_t block, int64_t last, const TensorView& counts)
      : stride(block), summary(last), anchor(Anchor::bottom_right), lengths(counts) {}
  template <TemporaryTensor T>
  Fixed(int64_t, int64_t, T&&) = delete;

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
