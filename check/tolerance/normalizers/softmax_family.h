#pragma once
// The rounding errors of softmax_family.h. If every score has the error S e (tolerance.h) and the
// sum has the relative error A e:
//   a weight (2 + S + A) e, relative: three roundings, of 2^x, of the inverse of the sum and of
//     their product; S includes the effect of the scores' errors on the sum;
//   the lse (2 max(1, |lse|) + S + A) e;
//   a weight computed again from the lse (2 + S) e, relative, plus the error of the lse.
#include "check/reference/softmax_family.h"
#include "check/tolerance/normalizer_error_formula.h"

namespace check {

template <class N>
struct SoftmaxErrors : PlainErrors<N> {
  using PlainErrors<N>::PlainErrors;

  double weight_error(double, double weight, double, const Off& off) const {
    return (2 * off.epsilon + off.score + off.sum) * weight;
  }
  double statistic_error(double statistic, const Off& off) const {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon + off.score + off.sum;
  }
  double weight_error_again(double, double weight, double statistic, const Off& off) const {
    return (2 * off.epsilon + off.score + statistic_error(statistic, off)) * weight;
  }
  double d_score_error(double, double weight, double d_weight, double delta, double,
                       const PairErrors& of, const Off&) const {
    return of.weight * std::abs(d_weight - delta) + weight * (of.d_weight + of.delta);
  }
};

template <class N>
requires std::is_base_of_v<SoftmaxFamily<N>, N>
struct NormalizerErrors<N> : SoftmaxErrors<N> {
  using SoftmaxErrors<N>::SoftmaxErrors;
};

}  // namespace check
