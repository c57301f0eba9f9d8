#pragma once
// A mask given element by element: query i may attend to key j where allowed[..., i, j] is true.
//
// allowed: boolean, any strides, broadcast from the right to [..., q_len, k_len]: each dimension
// equal or 1, missing ones count as 1.
#include "rapt/mask/mask.h"

namespace rapt {

class Boolean final : public Mask {
 public:
  TensorView allowed;  // [..., q_len or 1, k_len or 1], boolean, true = may attend

  Boolean() = default;
  explicit Boolean(const TensorView& pairs) : allowed(pairs) {}
  template <TemporaryTensor T>
  explicit Boolean(T&&) = delete;

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
