#pragma once
// Softmax and normalisers that differ from it by one more term in the denominator: see
// reference_normalizer.h.
//
//   lse = ln (e^null_score + sum_j e^score_j)        weight_j = e^(score_j - lse)
//
// as if every query attended to one more key, with this score and the value 0. Errors, if every
// score has the error S e (tolerance.h) and the sum has the relative error A e:
//   a weight (2 + S + A) e, relative: three roundings, of 2^x, of the inverse of the sum and of
//     their product; S includes the effect of the scores' errors on the sum;
//   the lse (2 max(1, |lse|) + S + A) e;
//   a weight computed again from the lse (2 + S) e, relative, plus the error of the lse.
#include <algorithm>
#include <array>
#include <limits>

#include "check/reference/reference_normalizer.h"

namespace check {

template <class Self>
struct SoftmaxFamily {
  static constexpr bool kHasStatistic = true;
  static constexpr bool kSparse = false;
  static constexpr std::array<NormalizerParameter<Self>, 0> kParameters = {};
  bool operator==(const SoftmaxFamily&) const = default;

  // No parameter has a gradient.
  template <class T>
  T d_number(const RowToPassBack<T>&, const T&, const T&) const {
    return T(0);
  }
  double d_number_error(const RowToPassBack<double>&, const RowErrors&, double, double, double,
                        const Off&) const {
    return 0;
  }

  Self of_length(int64_t) const { return self(); }

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    using Real = decltype(value_of(T()));
    using std::exp, std::log;
    const auto null_score = static_cast<Real>(self().null_score());
    Real most = null_score;
    for (const T& s : scores)
      if (!(value_of(s) <= most)) most = value_of(s);  // a NaN becomes the maximum
    // Subtracts the maximum to avoid overflow; a row of only -inf has no finite maximum.
    const Real shift = most == -std::numeric_limits<Real>::infinity() ? Real{0} : most;
    Weighed<T> row;
    row.divisor = T(std::exp(null_score - shift));
    for (const T& s : scores) {
      row.powers.push_back(exp(s - T(shift)));
      row.divisor = row.divisor + row.powers.back();
    }
    row.statistic = T(shift) + log(row.divisor);
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, decltype(value_of(T()))) const {
    using std::exp;
    return exp(score - statistic);
  }
  template <class T>
  T delta(const RowToPassBack<T>& row) const {
    return row.of_output;
  }
  template <class T>
  T d_score(const T&, const T& weight, const T& d_weight, const T& delta, const T&) const {
    return weight * (d_weight - delta);
  }

  double weight_error(double, double weight, double, const Off& off) const {
    return (2 * off.epsilon + off.score + off.sum) * weight;
  }
  double statistic_error(double statistic, const Off& off) const {
    return 2 * std::max(1.0, std::abs(statistic)) * off.epsilon + off.score + off.sum;
  }
  double weight_error_again(double, double weight, double statistic, const Off& off) const {
    return (2 * off.epsilon + off.score + statistic_error(statistic, off)) * weight;
  }
  double delta_error(const RowToPassBack<double>&, double, const RowErrors& of, const Off&) const {
    return of.of_output;
  }
  double d_score_error(double, double weight, double d_weight, double delta, double,
                       const PairErrors& of, const Off&) const {
    return of.weight * std::abs(d_weight - delta) + weight * (of.d_weight + of.delta);
  }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

struct SoftmaxReference : SoftmaxFamily<SoftmaxReference> {
  static constexpr std::string_view kName = "softmax";
  static double null_score() { return -std::numeric_limits<double>::infinity(); }  // no such key
};

struct SoftmaxPlusOneReference : SoftmaxFamily<SoftmaxPlusOneReference> {
  static constexpr std::string_view kName = "softmax_plus_one";
  static double null_score() { return 0; }
};

// The null score is a parameter: one sink for all heads, which has a gradient; -inf: no such key.
struct SoftmaxWithSinkReference : SoftmaxFamily<SoftmaxWithSinkReference> {
  static constexpr std::string_view kName = "softmax_with_sink";
  std::optional<double> sink;
  static constexpr std::array<NormalizerParameter<SoftmaxWithSinkReference>, 1> kParameters = {
      {{"sinks", &SoftmaxWithSinkReference::sink}}};
  bool operator==(const SoftmaxWithSinkReference&) const = default;
  double null_score() const { return sink.value_or(0); }
  SoftmaxWithSinkReference of_length(int64_t) const { return {{}, null_score()}; }

  // The sink is rounded and multiplied by log2(e), as a bias is.
  double weight_error(double score, double weight, double statistic, const Off& off) const {
    return SoftmaxFamily::weight_error(score, weight, statistic, with_sink(off));
  }
  double statistic_error(double statistic, const Off& off) const {
    return SoftmaxFamily::statistic_error(statistic, with_sink(off));
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    return SoftmaxFamily::weight_error_again(score, weight, statistic, with_sink(off));
  }
  Off with_sink(const Off& off) const {
    Off with = off;
    if (has_sink()) with.score += std::abs(null_score()) * off.epsilon;
    return with;
  }
  bool has_sink() const { return null_score() != -std::numeric_limits<double>::infinity(); }

  // The contribution of a row to the gradient of the sink: - p delta, with p the sink's weight.
  template <class T>
  T d_number(const RowToPassBack<T>&, const T& statistic, const T& delta) const {
    using std::exp;
    if (!has_sink()) return T(0);
    return -(exp(T(static_cast<decltype(value_of(T()))>(null_score())) - statistic) * delta);
  }
  double d_number_error(const RowToPassBack<double>&, const RowErrors&, double statistic,
                        double delta, double delta_error, const Off& off) const {
    if (!has_sink()) return 0;
    const double away = std::abs(null_score() - statistic), weight = std::exp(-away);
    const double relative = statistic_error(statistic, off) + (2 + away) * off.epsilon;
    return weight * (relative * std::abs(delta) + delta_error);
  }
};

}  // namespace check
