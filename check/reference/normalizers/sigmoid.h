#pragma once
// sigmoid: sigmoid attention (Ramapuram et al. 2024, arXiv:2409.04431).
//
//   weight_j = 1 / (1 + e^-x),  x = score_j + b,  b = -ln n where it is not given, over n keys
//
// dS = p (1 - p) dP, where 1 - p is the weight of -x, which does not cancel.
#include "check/reference/normalizer_formula.h"

namespace check {

struct SigmoidReference : PointwiseFormula<SigmoidReference> {
  static constexpr std::string_view kName = "sigmoid";
  std::optional<double> bias = {};
  static constexpr NormalizerParameter<SigmoidReference> kParameters[] = {
      {"bias", &SigmoidReference::bias}};
  bool operator==(const SigmoidReference&) const = default;

  SigmoidReference of_length(int64_t n) const {
    return {{}, bias.value_or(-std::log(static_cast<double>(n)))};
  }
  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    Weighed<T> row;
    for (const T& score : scores) row.powers.push_back(sigmoid(argument(score)));
    return row;
  }
  template <class T>
  T weight(const T& score, const T&, RealOf<T>) const {
    return sigmoid(argument(score));
  }
  template <class T>
  T d_score(const T& score, const T& weight, const T& d_weight, const T&, const T&) const {
    return weight * sigmoid(-argument(score)) * d_weight;
  }

  template <class T>
  T argument(const T& score) const {
    return score + constant<T>(*bias);
  }
  template <class T>
  static T sigmoid(const T& x) {
    const T one(1);
    if (!(value_of(x) < 0)) return inverse(one + exp(-x));
    const T power = exp(x);  // without overflow
    return power * inverse(one + power);
  }
};

}  // namespace check
