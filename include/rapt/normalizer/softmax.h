#pragma once
// Softmax: weight_j = e^(s_j - lse), lse = ln sum_j e^s_j. A row begins without a key: m = -inf, l
// = 0 (online_softmax.h).
// Source: Vaswani et al. 2017, arXiv:1706.03762, equation 1.
#include "rapt/normalizer/online_softmax.h"

namespace rapt {

struct Softmax : OnlineSoftmax {
  static const Declaration kDeclaration;
  static constexpr bool kMergeable = true;
  static constexpr bool kEntropy = true;

  // Weights reach at most 2^8, far from overflow. Where weights are rounded to 16 bits, the largest
  // weight of a row should be 1, which needs no rounding: otherwise the largest errors are about 30
  // % larger.
  template <class V>
  static constexpr double kSlack = requires {
    V::kWeightsOf16Bits;
  }
  ? 0 : 8 * kLn2;

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    begin_with<V>(t, -__builtin_inf(), 0);
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    apply_with<V>(t, kSlack<V>);
  }
};

}  // namespace rapt
