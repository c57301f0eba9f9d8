#pragma once
// ReLU-based attention (Wortsman et al. 2023, arXiv:2309.08586; squared: Hua et al. 2022,
// arXiv:2202.10447): see reference_pointwise.h.
//
//   weight_j = max(0, score_j)^power / divisor        divisor: n if it is not given, over n keys
//
// Errors: weights and slopes increase with the score, so their error is at most the difference
// between their values at the two ends of the score's error interval. The power, the inverse of the
// divisor and their product round by 2 e (slopes: 3 e), relative. Near a score of 0 the slope of
// power 1 may be that of either side.
#include <algorithm>

#include "check/reference/reference_pointwise.h"

namespace check {

struct ReluReference : PointwiseFamily<ReluReference> {
  static constexpr std::string_view kName = "relu";
  std::optional<double> power = {}, divisor = {};
  static constexpr NormalizerParameter<ReluReference> kParameters[] = {
      {"power", &ReluReference::power}, {"divisor", &ReluReference::divisor}};
  bool operator==(const ReluReference&) const = default;

  ReluReference of_length(int64_t n) const {
    ReluReference given;
    given.power = power.value_or(1);
    given.divisor = divisor.value_or(static_cast<double>(n));
    return given;
  }

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    Weighed<T> row;
    row.divisor = number<T>(*divisor);
    for (const T& score : scores) {
      const T part = positive_part(score);
      row.powers.push_back(*power == 1 ? part : part * part);
    }
    return row;
  }
  template <class T>
  T weight(const T& score, const T&, decltype(value_of(T()))) const {
    const T part = positive_part(score);
    return (*power == 1 ? part : part * part) * inverse(number<T>(*divisor));
  }
  template <class T>
  T d_score(const T& score, const T&, const T& d_weight, const T&, const T&) const {
    const T slope = *power == 1 ? is_positive(score) : T(2) * positive_part(score);
    return slope * inverse(number<T>(*divisor)) * d_weight;
  }

  double weight_error(double score, double weight, double, const Off& off) const {
    const double most = std::pow(std::max(0.0, score + off.score), *power) / *divisor;
    return most - weight + 2 * off.epsilon * most;
  }
  double d_score_error(double score, double, double d_weight, double, double, const PairErrors& of,
                       const Off& off) const {
    const double least = slope(score - off.score), most = slope(score + off.score);
    return (most - least + 3 * off.epsilon * most) * std::abs(d_weight) + most * of.d_weight;
  }

 private:
  template <class T>
  static T number(double x) {
    return T(static_cast<decltype(value_of(T()))>(x));
  }
  double slope(double score) const {
    return (*power == 1 ? (score > 0 ? 1.0 : 0.0) : 2 * std::max(0.0, score)) / *divisor;
  }
};

}  // namespace check
