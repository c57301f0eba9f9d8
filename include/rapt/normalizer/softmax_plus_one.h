#pragma once
// Softmax with one more term in the denominator, so that a query may attend to nothing:
//
//   weight_j = e^s_j / (1 + sum_j' e^s_j')        lse = ln(1 + sum_j e^s_j)
//
// It is softmax over the keys and one additional key with score 0 and value 0 (add_zero_attn of
// PyTorch's MultiheadAttention). Weights sum to 1 - e^-lse. A query without keys has output 0 and
// lse 0.
//
// A row begins as if it had already processed the additional key: m = 0, l = 1 (online_softmax.h).
// The maximum is always raised (kSlack is 0): otherwise equal scores would not have weights of
// exactly 1, and their sum would be inexact. The gradients are those of softmax, with this lse and
// with sums over the real keys only.
//
// Source: Miller 2023, "Attention Is Off By One"; the "zero sink" of Xiao et al. 2023,
// arXiv:2309.17453, section 3.3.
#include "rapt/normalizer/online_softmax.h"

namespace rapt {

struct SoftmaxPlusOne : OnlineSoftmax {
  static const Declaration kDeclaration;
  static constexpr bool kMergeable = false;  // each part contains the additional key
  static constexpr bool kEntropy = false;    // the weights do not sum to 1

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    begin_with<V>(t, 0, 1);
  }

  // Without the additional key, which the state of the first keys contains.
  template <class V>
  void begin_part(Tile<typename V::Element>& t) const noexcept {
    begin_with<V>(t, -__builtin_inf(), 0);
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    apply_with<V>(t, kSlack<V>);
  }
};

}  // namespace rapt
