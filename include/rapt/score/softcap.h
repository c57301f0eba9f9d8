#pragma once
// Soft cap: s' = cap tanh(s / cap), which leaves small scores alone and keeps all within +-cap.
// Before bias and masks, as in flash-attention, Hugging Face and ONNX since 1.22.
// Source: Gemma Team 2024 (Gemma 2), arXiv:2408.00118, section 2; Bello et al. 2017,
// arXiv:1611.09940, appendix ("clipping").
#include "rapt/score/score.h"

namespace rapt {

struct Softcap {
  double cap = 0;  // above 0; must be given

  static const Declaration kDeclaration;
  static constexpr Cost kCost = Cost::pass;

  Softcap() = default;
  explicit Softcap(double largest) : cap(largest) {}

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    // The division by the cap as a multiplication: its rounding, and that of cap itself, move the
    // score by one part in 10^7 at most.
    const V cap_v = V::set(cap), inverse = V::set(1 / cap);
    typename V::Element* const scores = t.scores;
    const int64_t count = t.keys * t.queries;
    for (int64_t x = 0; x < count; x += V::kLanes)
      store(scores + x, mul(cap_v, tanh(mul(V::load(scores + x), inverse))));
  }
};

}  // namespace rapt
