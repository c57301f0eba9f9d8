#pragma once
// Key lengths (padding): every query may attend to key j where j < length of its batch.
//
// lengths [B] or [B, H] ...: int64, aligned with the FIRST leading dimensions of the output, each
// dimension equal or 1, so that [B] serves [B, H, n, d] as well as [B, n, d].
// A bottom-right causal mask or window beside it is still anchored at k_len, not at the length. To
// anchor it at the length, as flash-attention (seqused_k) and ONNX (nonpad_kv_seqlen) do, give it
// the lengths, too: Causal(lengths).
// ONNX calls it nonpad_kv_seqlen, flash-attention seqused_k.
#include "rapt/mask/mask.h"

namespace rapt {

class Lengths final : public Mask {
 public:
  TensorView lengths;  // [B] or any prefix of the leading dimensions, int64, 0 <= length <= k_len

  Lengths() = default;
  explicit Lengths(const TensorView& counts) : lengths(counts) {}
  template <TemporaryTensor T>
  explicit Lengths(T&&) = delete;

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
