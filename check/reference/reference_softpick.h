#pragma once
// softpick (Zuhri, Fuadi & Aji 2025, arXiv:2504.20966), an own family: see reference_normalizer.h.
//
//   S = sum_j |e^score_j - 1|      statistic = ln S      weight_j = max(0, e^score_j - 1) / S
//
// A row whose S is 0 has no weights, and a score of -inf is no key. With E = e^score / S, the
// gradient of a score above 0 is E (d_weight - delta), of one below 0 E delta, of 0 0.
//
// Errors, if every score has the error S e (tolerance.h): e^(score - m) and e^-m round on their
// own, so that their difference has the error (2 e + S) (e^(score - m) + e^-m). The condition of a
// row is the sum of these sizes, relative to the sum of the differences. Near a score of 0 the
// gradient may be that of either side.
#include <algorithm>
#include <array>
#include <limits>

#include "check/reference/reference_normalizer.h"

namespace check {

struct SoftpickReference {
  static constexpr std::string_view kName = "softpick";
  static constexpr bool kHasStatistic = true;
  static constexpr bool kSparse = false;
  static constexpr std::array<NormalizerParameter<SoftpickReference>, 0> kParameters = {};
  bool operator==(const SoftpickReference&) const = default;

  SoftpickReference of_length(int64_t) const { return {}; }

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    using Real = decltype(value_of(T()));
    using std::exp, std::log;
    Real most = 0;
    for (const T& s : scores)
      if (!(value_of(s) <= most)) most = value_of(s);  // a NaN becomes the maximum
    Weighed<T> row;
    T sum(0);
    const T one = exp(T(-most));
    Real sizes = 0;
    for (const T& s : scores) {
      const T power = is_key(s) ? exp(s - T(most)) - one : T(0);
      row.powers.push_back(positive_part(power));
      sum = sum + positive_part(power) + positive_part(-power);
      if (is_key(s)) sizes += value_of(power) + 2 * value_of(one);
    }
    if (value_of(sum) == 0) {
      row.statistic = T(-std::numeric_limits<Real>::infinity());
      return row;
    }
    row.divisor = sum;
    row.statistic = T(most) + log(sum);
    row.condition = sizes / value_of(sum);
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, decltype(value_of(T()))) const {
    using std::exp;
    if (!is_key(statistic)) return T(0);
    const T shift = shift_of(statistic);  // no difference of large numbers where S is small
    return positive_part(exp(score - shift) - exp(-shift)) * exp(shift - statistic);
  }
  template <class T>
  T delta(const RowToPassBack<T>& row) const {
    return row.of_output;
  }
  template <class T>
  T d_score(const T& score, const T&, const T& d_weight, const T& delta, const T& statistic) const {
    using std::exp;
    if (!is_key(statistic)) return T(0);
    const T shift = shift_of(statistic);
    const T share = exp(score - shift) * exp(shift - statistic);
    return share * (is_positive(score) * (d_weight - delta) + is_positive(-score) * delta);
  }
  // There is no parameter.
  template <class T>
  T d_number(const RowToPassBack<T>&, const T&, const T&) const {
    return T(0);
  }

  double weight_error(double score, double weight, double statistic, const Off& off) const {
    return difference_error(score, statistic, off) + weight * (sum_error(off) + 2 * off.epsilon);
  }
  double statistic_error(double statistic, const Off& off) const {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon + sum_error(off);
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    if (!is_key(statistic)) return 0;
    return difference_error(score, statistic, off) +
           weight * (statistic_error(statistic, off) + again(statistic, off));
  }
  double delta_error(const RowToPassBack<double>&, double, const RowErrors& of, const Off&) const {
    return of.of_output;
  }
  double d_score_error(double score, double, double d_weight, double delta, double statistic,
                       const PairErrors& of, const Off& off) const {
    if (!is_key(statistic)) return 0;
    const double share = std::exp(score - statistic);
    const double relative =
        3 * off.epsilon + off.score + statistic_error(statistic, off) + again(statistic, off);
    const double above = std::abs(d_weight - delta), below = std::abs(delta);
    if (std::abs(score) <= 2 * off.score)  // of either side
      return share * ((1 + relative) * (above + below) + of.d_weight + of.delta);
    return share * (relative * (score < 0 ? below : above) + of.d_weight + of.delta);
  }
  double d_number_error(const RowToPassBack<double>&, const RowErrors&, double, double, double,
                        const Off&) const {
    return 0;
  }

 private:
  // Also of a statistic: whether the row has weights.
  template <class T>
  static bool is_key(const T& score) {
    using Real = decltype(value_of(T()));
    return value_of(score) != -std::numeric_limits<Real>::infinity();
  }
  template <class T>
  static T shift_of(const T& statistic) {
    return value_of(statistic) <= 0 ? T(0) : statistic;
  }
  // The relative error of e^(shift - statistic).
  static double again(double statistic, const Off& off) {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon;
  }
  static double sum_error(const Off& off) {
    return (2 * off.epsilon + off.score + off.sum) * off.condition;
  }
  // e^(score - statistic) + e^-statistic
  static double sizes(double score, double statistic) {
    return is_key(statistic) ? std::exp(score - statistic) + std::exp(-statistic) : 0;
  }
  static double difference_error(double score, double statistic, const Off& off) {
    return (2 * off.epsilon + off.score) * sizes(score, statistic);
  }
};

}  // namespace check
