#pragma once
// The rounding errors of softmax_with_sink: those of its family. The sink is rounded and multiplied
// by log2(e), as a bias is.
#include "check/reference/normalizers/softmax_with_sink.h"
#include "check/tolerance/normalizers/softmax_family.h"

namespace check {

template <>
struct NormalizerErrors<SoftmaxWithSinkReference> : SoftmaxErrors<SoftmaxWithSinkReference> {
  using SoftmaxErrors::SoftmaxErrors;

  double score_error(const Off& off) const {
    return off.score + (n.has_sink() ? std::abs(n.null_score()) * off.epsilon : 0);
  }
  double d_number_error(const RowToPassBack<double>&, const ErrorsToPassBack&, double statistic,
                        double delta, double delta_error, const Off& off) const {
    if (!n.has_sink()) return 0;
    const double away = std::abs(n.null_score() - statistic), weight = std::exp(-away);
    const double relative = statistic_error(statistic, off) + (2 + away) * off.epsilon;
    return weight * (relative * std::abs(delta) + delta_error);
  }
};

}  // namespace check
