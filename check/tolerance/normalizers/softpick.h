#pragma once
// The rounding errors of softpick. If every score has the error S e (tolerance.h), e^(score - m)
// and e^-m round on their own, so that their difference has the error (2 e + S) (e^(score - m) +
// e^-m). The condition of a row is the sum of these sizes, relative to the sum of the differences.
// The sign of such a difference chooses the gradient of a score. There m is the statistic where it
// is above 0, and the argument of each power rounds by up to 2 e m more: once as m is subtracted,
// and twice by the factor log2 e. So a score may count as above 0, below 0 or 0 where the
// difference is less than its error, for example where e^score rounds to 1:
//   |e^score - 1| <= (2 e (1 + m) + S) (e^score + 1)
#include "check/reference/normalizers/softpick.h"
#include "check/tolerance/normalizer_error_formula.h"

namespace check {

template <>
struct NormalizerErrors<SoftpickReference> : PlainErrors<SoftpickReference> {
  using PlainErrors::PlainErrors;

  template <class T>
  T condition(std::span<const T> scores, const T& divisor) const {
    const T most = largest_of(scores, T(0)), one = exp(-most);
    T sizes = 0;
    for (const T& s : scores)
      if (n.is_key(s)) sizes += exp(s - most) - one + 2 * one;
    return sizes / divisor;
  }
  double weight_error(double score, double weight, double statistic, const Off& off) const {
    return difference_error(score, statistic, off) + weight * (sum_error(off) + 2 * off.epsilon);
  }
  double statistic_error(double statistic, const Off& off) const {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon + sum_error(off);
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    if (!n.is_key(statistic)) return 0;
    return difference_error(score, statistic, off) +
           weight * (statistic_error(statistic, off) + again(statistic, off));
  }
  double d_score_error(double score, double, double d_weight, double delta, double statistic,
                       const PairErrors& of, const Off& off) const {
    if (!n.is_key(statistic)) return 0;
    const double share = std::exp(score - statistic);
    const double relative =
        3 * off.epsilon + off.score + statistic_error(statistic, off) + again(statistic, off);
    const double above = std::abs(d_weight - delta), below = std::abs(delta);
    if (may_be_zero(score, statistic, off))
      return share * ((1 + relative) * (above + below) + of.d_weight + of.delta);
    return share * (relative * (score < 0 ? below : above) + of.d_weight + of.delta);
  }
  // Whether the gradient of a score may be that of either side of 0, or 0.
  static bool may_be_zero(double score, double statistic, const Off& off) {
    const double relative = 2 * off.epsilon * (1 + std::max(0.0, statistic)) + off.score;
    return std::abs(std::tanh(score / 2)) <= relative;
  }

 private:
  // The relative error of e^(shift - statistic).
  static double again(double statistic, const Off& off) {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon;
  }
  static double sum_error(const Off& off) {
    return (2 * off.epsilon + off.score + off.sum) * off.condition;
  }
  // e^(score - statistic) + e^-statistic
  double sizes(double score, double statistic) const {
    return n.is_key(statistic) ? std::exp(score - statistic) + std::exp(-statistic) : 0;
  }
  double difference_error(double score, double statistic, const Off& off) const {
    return (2 * off.epsilon + off.score) * sizes(score, statistic);
  }
};

}  // namespace check
