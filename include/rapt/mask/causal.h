#pragma once
// Causal mask: query i may attend to key j where j <= i + o, with
//   o = offset                    (top-left anchor)
//   o = offset + k_len - q_len    (bottom-right anchor)
//   o = offset + length - q_len   (bottom-right anchor, with `lengths`: of this batch)
//
// With `lengths`, the last query is aligned with the last key of its own sequence, as in a key
// cache with unused capacity: ONNX with nonpad_kv_seqlen, flash-attention with cache_seqlens. If
// the offset is above 0, add the mask Lengths, which masks out the keys beyond the length.
// Source: Vaswani et al. 2017, arXiv:1706.03762, section 3.2.3; for the anchors see anchor.h.
#include "rapt/mask/mask.h"

namespace rapt {

class Causal final : public Mask {
 public:
  Anchor anchor = Anchor::top_left;
  int64_t offset = 0;
  // [B] or any prefix of the leading dimensions, int64, 0 <= length <= k_len; bottom-right only;
  // may be absent
  TensorView lengths;

  Causal() = default;
  explicit Causal(Anchor at, int64_t keys_further = 0) : anchor(at), offset(keys_further) {}
  explicit Causal(const TensorView& counts, int64_t keys_further = 0)
      : anchor(Anchor::bottom_right), offset(keys_further), lengths(counts) {}
  template <TemporaryTensor T>
  explicit Causal(T&&, int64_t = 0) = delete;

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
