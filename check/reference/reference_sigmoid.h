#pragma once
// Sigmoid attention (Ramapuram et al. 2024, arXiv:2409.04431): see reference_pointwise.h.
//
//   weight_j = 1 / (1 + e^-x),  x = score_j + b,  b = -ln n where it is not given, over n keys
//
// dS = p (1 - p) dP, where 1 - p is the weight of -x, which does not cancel. Errors: x is off by
// the score's error and by e (|score| + |b|), of the product with log2(e) and the sum; the weight
// by p (1 - p) times that and 2 e of itself, of 2^x, the sum, the division and a product; p (1 - p)
// by itself times the error of x, as its derivative is smaller, and 4 e of itself.
#include "check/reference/reference_pointwise.h"

namespace check {

struct SigmoidReference : PointwiseFamily<SigmoidReference> {
  static constexpr std::string_view kName = "sigmoid";
  std::optional<double> bias = {};
  static constexpr NormalizerParameter<SigmoidReference> kParameters[] = {
      {"bias", &SigmoidReference::bias}};
  bool operator==(const SigmoidReference&) const = default;

  SigmoidReference of_length(int64_t n) const {
    SigmoidReference given;
    given.bias = bias.value_or(-std::log(static_cast<double>(n)));
    return given;
  }

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    Weighed<T> row;
    for (const T& score : scores) row.powers.push_back(weight(score, row.statistic, row.cut));
    return row;
  }
  template <class T>
  T weight(const T& score, const T&, decltype(value_of(T()))) const {
    return sigmoid(argument(score));
  }
  template <class T>
  T d_score(const T& score, const T& weight, const T& d_weight, const T&, const T&) const {
    return weight * sigmoid(-argument(score)) * d_weight;
  }

  double weight_error(double score, double weight, double, const Off& off) const {
    return slope(score) * argument_error(score, off) + 2 * off.epsilon * weight;
  }
  double d_score_error(double score, double, double d_weight, double, double, const PairErrors& of,
                       const Off& off) const {
    const double relative = argument_error(score, off) + 4 * off.epsilon;
    return slope(score) * (relative * std::abs(d_weight) + of.d_weight);
  }

 private:
  template <class T>
  static T sigmoid(const T& x) {
    using std::exp;
    const T one(1);
    if (!(value_of(x) < 0)) return inverse(one + exp(-x));
    const T power = exp(x);  // without overflow
    return power * inverse(one + power);
  }
  template <class T>
  T argument(const T& score) const {
    return score + T(static_cast<decltype(value_of(T()))>(*bias));
  }
  double slope(double score) const {
    const double x = argument(score);
    return sigmoid(x) * sigmoid(-x);
  }
  double argument_error(double score, const Off& off) const {
    return off.score + off.epsilon * (std::abs(score) + std::abs(*bias));
  }
};

}  // namespace check
