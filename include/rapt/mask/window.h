#pragma once
// Sliding window: query i may attend to key j where i + o - left <= j <= i + o + right, with o as
// in causal.h. left and right count neighbours; the key at i + o itself is always allowed, as in
// flash-attention, ONNX 25 and JAX. Hugging Face and Keras count the query itself, so their window
// w is left = w - 1. -1 = unbounded on that side. Source: Beltagy et al. 2020 (Longformer),
// arXiv:2004.05150, section 3.1.
#include "rapt/mask/mask.h"

namespace rapt {

class Window final : public Mask {
 public:
  int64_t left = -1;
  int64_t right = -1;
  Anchor anchor = Anchor::top_left;
  TensorView lengths;  // as in causal.h: the bottom-right corner of each batch; or absent

  Window() = default;
  Window(int64_t before, int64_t after, Anchor at = Anchor::top_left)
      : left(before), right(after), anchor(at) {}
  Window(int64_t before, int64_t after, const TensorView& counts)
      : left(before), right(after), anchor(Anchor::bottom_right), lengths(counts) {}
  template <TemporaryTensor T>
  Window(int64_t, int64_t, T&&) = delete;

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
