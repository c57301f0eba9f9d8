#pragma once
// The rounding errors of relu. Weights and slopes increase with the score, so their error is at
// most the difference between their values at the two ends of the score's error interval. The
// power, the inverse of the divisor and their product round by 2 e (slopes: 3 e), relative. Near a
// score of 0 the slope of power 1 may be that of either side.
#include "check/reference/normalizers/relu.h"
#include "check/tolerance/normalizer_error_formula.h"

namespace check {

template <>
struct NormalizerErrors<ReluReference> : PointwiseErrors<ReluReference> {
  using PointwiseErrors::PointwiseErrors;

  double weight_error(double score, double weight, double, const Off& off) const {
    const double most = std::pow(std::max(0.0, score + off.score), *n.power) / *n.divisor;
    return most - weight + 2 * off.epsilon * most;
  }
  double d_score_error(double score, double, double d_weight, double, double, const PairErrors& of,
                       const Off& off) const {
    const double least = slope(score - off.score), most = slope(score + off.score);
    return (most - least + 3 * off.epsilon * most) * std::abs(d_weight) + most * of.d_weight;
  }

 private:
  double slope(double score) const {
    return (*n.power == 1 ? (score > 0 ? 1.0 : 0.0) : 2 * std::max(0.0, score)) / *n.divisor;
  }
};

}  // namespace check
