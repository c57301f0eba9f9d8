#pragma once
// Softmax, and normalisers that differ from it by one more term in the denominator:
//
//   lse = ln (e^null_score + sum_j e^score_j)        weight_j = e^(score_j - lse)
//
// as if every query attended to one more key, with this score and the value 0. A row of scores that
// are all -inf has the weights 0 / 0, and the lse NaN: -inf is the lse of a row without keys.
#include "check/reference/normalizer_formula.h"

namespace check {

template <class Self>
struct SoftmaxFamily : NormalizerFormula<Self> {
  bool operator==(const SoftmaxFamily&) const = default;
  static double null_score() { return -kInfinityOf<double>; }  // there is no such key

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    const auto null_score = static_cast<RealOf<T>>(this->self().null_score());
    const RealOf<T> most = largest_of(scores, null_score);
    // Subtracts the maximum to avoid overflow; a row of only -inf has no finite maximum.
    const RealOf<T> shift = most == -kInfinityOf<T> ? 0 : most;
    Weighed<T> row;
    row.divisor = T(exp(null_score - shift));
    for (const T& s : scores) {
      row.powers.push_back(exp(s - T(shift)));
      row.divisor = row.divisor + row.powers.back();
    }
    const bool has_weights = value_of(row.divisor) != 0 || scores.empty();
    row.statistic =
        has_weights ? T(shift) + log(row.divisor) : T(std::numeric_limits<RealOf<T>>::quiet_NaN());
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, RealOf<T>) const {
    return exp(score - statistic);
  }
  template <class T>
  T d_score(const T&, const T& weight, const T& d_weight, const T& delta, const T&) const {
    return weight * (d_weight - delta);
  }
};

}  // namespace check
