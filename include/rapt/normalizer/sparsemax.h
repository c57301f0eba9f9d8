#pragma once
// Sparsemax: the point of the simplex that is nearest to the scores,
//
//   weight_j = [s_j - tau]_+        with tau such that they sum to 1
//
// All but a few keys have a weight of exactly 0 (row_threshold.h, alpha = 2).
// Source: Martins & Astudillo 2016, arXiv:1602.02068, equation 3.
#include "rapt/normalizer/row_threshold.h"

namespace rapt {

struct Sparsemax : RowThreshold<Sparsemax> {
  static const Declaration kDeclaration;

  template <class V>
  static double alpha_of(const Head&) noexcept {
    return 2;
  }
  template <class V, class Visit>
  static void power(const Head&, const Visit& visit) noexcept {
    visit(LinearWeights<V>{});
  }
};

}  // namespace rapt
