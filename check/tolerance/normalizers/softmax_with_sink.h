#pragma once
// The rounding errors of softmax_with_sink: those of its family. The sink is rounded and multiplied
// by log2(e), as a bias is.
#include "check/reference/normalizers/softmax_with_sink.h"
#include "check/tolerance/normalizers/softmax_family.h"

namespace check {

template <>
struct NormalizerErrors<SoftmaxWithSinkReference> : SoftmaxErrors<SoftmaxWithSinkReference> {
  using SoftmaxErrors::SoftmaxErrors;

  double weight_error(double score, double weight, double statistic, const Off& off) const {
    return SoftmaxErrors::weight_error(score, weight, statistic, with_sink(off));
  }
  double statistic_error(double statistic, const Off& off) const {
    return SoftmaxErrors::statistic_error(statistic, with_sink(off));
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    return SoftmaxErrors::weight_error_again(score, weight, statistic, with_sink(off));
  }
  double d_number_error(const RowToPassBack<double>&, const ErrorsToPassBack&, double statistic,
                        double delta, double delta_error, const Off& off) const {
    if (!n.has_sink()) return 0;
    const double away = std::abs(n.null_score() - statistic), weight = std::exp(-away);
    const double relative = statistic_error(statistic, off) + (2 + away) * off.epsilon;
    return weight * (relative * std::abs(delta) + delta_error);
  }

 private:
  Off with_sink(const Off& off) const {
    Off with = off;
    if (n.has_sink()) with.score += std::abs(n.null_score()) * off.epsilon;
    return with;
  }
};

}  // namespace check
