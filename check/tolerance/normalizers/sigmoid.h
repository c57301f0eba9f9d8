#pragma once
// The rounding errors of sigmoid. x is off by the score's error and by e (|score| + |b|), of the
// product with log2(e) and the sum; the weight by p (1 - p) times that and 2 e of itself, of 2^x,
// the sum, the division and a product; p (1 - p) by itself times the error of x, as its derivative
// is smaller, and 4 e of itself.
#include "check/reference/normalizers/sigmoid.h"
#include "check/tolerance/normalizer_error_formula.h"

namespace check {

template <>
struct NormalizerErrors<SigmoidReference> : PointwiseErrors<SigmoidReference> {
  using PointwiseErrors::PointwiseErrors;

  double weight_error(double score, double weight, double, const Off& off) const {
    return slope(score) * argument_error(score, off) + 2 * off.epsilon * weight;
  }
  double d_score_error(double score, double, double d_weight, double, double, const PairErrors& of,
                       const Off& off) const {
    const double relative = argument_error(score, off) + 4 * off.epsilon;
    return slope(score) * (relative * std::abs(d_weight) + of.d_weight);
  }

 private:
  double slope(double score) const {
    const double x = n.argument(score);
    return n.sigmoid(x) * n.sigmoid(-x);
  }
  double argument_error(double score, const Off& off) const {
    return off.score + off.epsilon * (std::abs(score) + std::abs(*n.bias));
  }
};

}  // namespace check
