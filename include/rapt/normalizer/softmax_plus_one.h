#pragma once
// Softmax with one more term in the denominator, so that a query may attend to nothing:
//
//   weight_j = e^s_j / (1 + sum_j' e^s_j')        lse = ln(1 + sum_j e^s_j)
//
// It is softmax over the keys and one more, whose score is 0 and whose value is 0 (PyTorch's
// MultiheadAttention calls that add_zero_attn). Weights sum to 1 - e^-lse. A query without keys has
// output 0 and lse 0.
//
// A row begins as if it had seen that key (online_softmax.h): m = 0, l = 1. This maximum is not
// kept while others are a little above it: equal scores would not have weights of 1, nor their sum
// be exact. The gradients are those of softmax, whose formulas take the lse and sums over the real
// keys alone.
//
// Source: Miller 2023, "Attention Is Off By One"; the "zero sink" of Xiao et al. 2023,
// arXiv:2309.17453, section 3.3.
#include "rapt/normalizer/online_softmax.h"

namespace rapt {

struct SoftmaxPlusOne : OnlineSoftmax {
  static const Declaration kDeclaration;
  static constexpr bool kMergeable = false;  // two parts of the keys would count the one twice
  static constexpr bool kEntropy = false;    // the weights are no distribution

  template <class V>
  void begin(Tile<typename V::Element>& t) const noexcept {
    begin_with<V>(t, 0, 1);
  }

  template <class V>
  void apply(Tile<typename V::Element>& t) const noexcept {
    apply_with<V>(t, kSlack<V>);
  }
};

}  // namespace rapt
