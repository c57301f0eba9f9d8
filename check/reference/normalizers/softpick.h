#pragma once
// softpick (Zuhri, Fuadi & Aji 2025, arXiv:2504.20966).
//
//   S = sum_j |e^score_j - 1|      statistic = ln S      weight_j = max(0, e^score_j - 1) / S
//
// A row whose S is 0 has no weights, and a score of -inf is no key. With E = e^score / S, the
// gradient of a score above 0 is E (d_weight - delta), of one below 0 E delta, of 0 0.
#include "check/reference/normalizer_formula.h"

namespace check {

struct SoftpickReference : NormalizerFormula<SoftpickReference> {
  static constexpr std::string_view kName = "softpick";

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    const RealOf<T> most = largest_of(scores, RealOf<T>(0));
    Weighed<T> row;
    T sum(0);
    const T one = exp(T(-most));
    for (const T& s : scores) {
      const T power = is_key(s) ? exp(s - T(most)) - one : T(0);
      row.powers.push_back(positive_part(power));
      sum = sum + positive_part(power) + positive_part(-power);
    }
    const bool has_weights = value_of(sum) != 0;
    if (has_weights) row.divisor = sum;
    row.statistic = has_weights ? T(most) + log(sum) : T(-kInfinityOf<T>);
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, RealOf<T>) const {
    if (!is_key(statistic)) return T(0);
    const T shift = shift_of(statistic);  // no difference of large numbers where S is small
    return positive_part(exp(score - shift) - exp(-shift)) * exp(shift - statistic);
  }
  template <class T>
  T d_score(const T& score, const T&, const T& d_weight, const T& delta, const T& statistic) const {
    if (!is_key(statistic)) return T(0);
    const T shift = shift_of(statistic);
    const T share = exp(score - shift) * exp(shift - statistic);
    return share *
           (chosen(is_positive(score), d_weight - delta) + chosen(is_positive(-score), delta));
  }

  // Also of a statistic: whether the row has weights.
  template <class T>
  static bool is_key(const T& score) {
    return value_of(score) != -kInfinityOf<T>;
  }

 private:
  // x where `is` is 1; 0 where it is 0, even if x is not finite.
  template <class T>
  static T chosen(const T& is, const T& x) {
    return value_of(is) == 0 && !std::isfinite(value_of(x)) ? T(0) : is * x;
  }
  template <class T>
  static T shift_of(const T& statistic) {
    return value_of(statistic) <= 0 ? T(0) : statistic;
  }
};

}  // namespace check
