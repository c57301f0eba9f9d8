#pragma once
// Entmax-1.5, between softmax and sparsemax: exact zeros, and weights that approach them smoothly,
//
//   weight_j = [s_j / 2 - tau]_+^2        with tau such that they sum to 1
//
// (row_threshold.h, alpha = 1.5).
// Source: Peters, Niculae & Martins 2019, arXiv:1905.05702, section 3 and algorithm 2.
#include "rapt/normalizer/row_threshold.h"

namespace rapt {

struct Entmax15 : RowThreshold<Entmax15> {
  static const Declaration kDeclaration;

  template <class V>
  static double alpha_of(const Head&) noexcept {
    return 1.5;
  }
  template <class V, class Visit>
  static void power(const Head&, const Visit& visit) noexcept {
    visit(SquareWeights<V>{});
  }
};

}  // namespace rapt
