#pragma once
// softmax_with_sink: e^score_j / (e^sink + sum_j e^score_j), one sink for all heads; -inf: none.
#include "check/reference/softmax_family.h"

namespace check {

struct SoftmaxWithSinkReference : SoftmaxFamily<SoftmaxWithSinkReference> {
  static constexpr std::string_view kName = "softmax_with_sink";
  std::optional<double> sink;
  static constexpr NormalizerParameter<SoftmaxWithSinkReference> kParameters[] = {
      {"sinks", &SoftmaxWithSinkReference::sink}};
  bool operator==(const SoftmaxWithSinkReference&) const = default;

  double null_score() const { return sink.value_or(0); }
  bool has_sink() const { return null_score() != -kInfinityOf<double>; }
  bool has_gradient() const { return true; }
  SoftmaxWithSinkReference of_length(int64_t) const { return {{}, null_score()}; }

  // - p delta, with p the weight of the sink.
  template <class T>
  T d_number(const RowToPassBack<T>&, const T& statistic, const T& delta) const {
    if (!has_sink()) return T(0);
    return -(exp(constant<T>(null_score()) - statistic) * delta);
  }
};

}  // namespace check
