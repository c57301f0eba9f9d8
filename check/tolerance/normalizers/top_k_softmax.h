#pragma once
// The rounding errors of top_k_softmax: those of its family, with one addition. If every score has
// the error sigma, a score within 2 sigma of the cut may lie on the other side of it, so that its
// weight is present or absent. `doubt` bounds by how much this changes the sum of the weights,
// relative to the sum. At most, all scores just below the cut are added; or, of the scores equal to
// the cut, those are dropped that exceed k. A score that takes the place of another is within 2
// sigma of it.
#include "check/reference/normalizers/top_k_softmax.h"
#include "check/tolerance/normalizers/softmax_family.h"

namespace check {

template <>
struct NormalizerErrors<TopKSoftmaxReference> : SoftmaxErrors<TopKSoftmaxReference> {
  using SoftmaxErrors::SoftmaxErrors;

  double doubt(std::span<const double> scores, double statistic, const Off& off) const {
    double coming = 0, equal = 0, above = 0;
    for (const double s : scores) {
      if (s < off.cut && is_near(s, off)) coming += std::exp(s - statistic);
      equal += s == off.cut, above += s > off.cut;
    }
    const double going = off.score == 0 ? 0
                                        : std::max(0.0, above + equal - n.k.value_or(1)) *
                                              std::exp(off.cut - statistic);
    return std::max(coming, going < 1 ? going / (1 - going) : 0.0);
  }
  double weight_error(double score, double weight, double statistic, const Off& off) const {
    const double most = is_near(score, off) ? std::exp(score - statistic) : weight;
    const double relative = (2 * off.epsilon + off.score + off.doubt) * most;
    return is_near(score, off) ? most + relative : relative;
  }
  double statistic_error(double statistic, const Off& off) const {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon + off.score + off.doubt;
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    const double most = is_near(score, off) ? std::exp(score - statistic) : weight;
    return weight_error(score, weight, statistic, off) + statistic_error(statistic, off) * most;
  }

 private:
  static bool is_near(double score, const Off& off) {
    return off.score > 0 && std::abs(score - off.cut) <= 2 * off.score;
  }
};

}  // namespace check
