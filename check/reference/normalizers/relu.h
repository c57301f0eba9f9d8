#pragma once
// relu: ReLU-based attention (Wortsman et al. 2023, arXiv:2309.08586; squared: Hua et al. 2022,
// arXiv:2202.10447).
//
//   weight_j = max(0, score_j)^power / divisor        divisor: n if it is not given, over n keys
#include "check/reference/normalizer_formula.h"

namespace check {

struct ReluReference : PointwiseFormula<ReluReference> {
  static constexpr std::string_view kName = "relu";
  std::optional<double> power = {}, divisor = {};
  static constexpr NormalizerParameter<ReluReference> kParameters[] = {
      {"power", &ReluReference::power}, {"divisor", &ReluReference::divisor}};
  bool operator==(const ReluReference&) const = default;

  ReluReference of_length(int64_t n) const {
    return {{}, power.value_or(1), divisor.value_or(static_cast<double>(n))};
  }
  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    Weighed<T> row;
    row.divisor = constant<T>(*divisor);
    for (const T& score : scores) row.powers.push_back(powered(score));
    return row;
  }
  template <class T>
  T weight(const T& score, const T&, RealOf<T>) const {
    return powered(score) * inverse(constant<T>(*divisor));
  }
  template <class T>
  T d_score(const T& score, const T&, const T& d_weight, const T&, const T&) const {
    const T slope = *power == 1 ? is_positive(score) : T(2) * positive_part(score);
    return slope * inverse(constant<T>(*divisor)) * d_weight;
  }

 private:
  template <class T>
  T powered(const T& score) const {
    const T part = positive_part(score);
    return *power == 1 ? part : part * part;
  }
};

}  // namespace check
