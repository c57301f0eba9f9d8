#pragma once
// Causal mask: query i may attend to key j where j <= i + o, with
//   o = offset                    (top-left anchor)
//   o = offset + k_len - q_len    (bottom-right anchor)
// Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3; the anchors are those of mask.h.
#include "rapt/mask/mask.h"

namespace rapt {

class Causal final : public Mask {
 public:
  Anchor anchor = Anchor::top_left;
  int64_t offset = 0;

  Causal() = default;
  explicit Causal(Anchor at, int64_t keys_further = 0) : anchor(at), offset(keys_further) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;
};

}  // namespace rapt
