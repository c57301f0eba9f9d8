#pragma once
// The sparse normalisers, alpha-entmax (Peters, Niculae & Martins 2019, arXiv:1905.05702;
// sparsemax, alpha = 2: Martins & Astudillo 2016, arXiv:1602.02068): see reference_normalizer.h.
//
//   weight_j = [d_j]_+^q,  d_j = (alpha - 1) score_j - tau,  q = 1 / (alpha - 1),
//   where the statistic tau makes the weights sum to 1; it is -inf without keys
//   u_j = weight_j^(2 - alpha) where weight_j > 0, else 0: the slope
//   delta = (sum_j u_j dP_j - (alpha - 1) d_tau) / sum_j u_j      dS_j = u_j (dP_j - delta)
//
// Errors, if every score has the error sigma.
//   d_j: tau is a function of the scores whose derivatives are nonnegative; their sum is alpha - 1.
//     So tau changes by at most (alpha - 1) sigma, and d_j by at most twice that. The library
//     counts scores from the largest, so that d lies in [0, 1] and tau in [-1, 0]. Then alpha - 1,
//     the difference, the product and the sum round by 2 e; tau has the mean of such errors (2 e),
//     2 e because its search may stop early, e of the sums and powers in the search, and e/2 when
//     it is stored: 8 e together.
//   A weight: the power is convex, so the error is at most the increase of the power when d
//     increases by its error. Relative to itself a weight has 2 e |ln weight| + 5 e more, of a
//     power by logarithm or by products, of the inverse of the sum, and of their product; and
//     (e/2) q sum u, because the sum is that of weights with a rounded tau.
//   The statistic: (alpha - 1) sigma; the 6 e of tau; and e (1 + |statistic|), because the largest
//     score times alpha - 1 is added.
//   A weight computed again from the stored statistic: the error of d_j is then that of the score,
//     of the statistic, and of products and a sum as large as the statistic.
//   A slope: its values at the two ends of the weight's error interval bound the error; for
//     sparsemax it may be 0 or 1 where the weight is near 0. Relative to itself it has
//     (3 + 2 |ln u|) e more, as weights have.
//   delta: with the errors du_j of u_j, and the least possible U of sum u,
//       delta^ - delta = sum_j (du_j (dP_j - delta) + u_j error of dP_j) / U
//     and e (1/2 + sqrt(n) / 4) of the terms of the sums over n keys, as for a score.
#include <algorithm>
#include <limits>

#include "check/reference/reference_normalizer.h"

namespace check {

template <class Self>
struct EntmaxFamily {
  static constexpr bool kHasStatistic = true;
  static constexpr bool kSparse = true;
  bool operator==(const EntmaxFamily&) const = default;

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    using Real = decltype(value_of(T()));
    Weighed<T> row;
    row.statistic = T(-std::numeric_limits<Real>::infinity());
    if (scores.empty()) return row;
    Real most = value_of(scores.front());
    for (const T& s : scores)
      if (!(value_of(s) <= most)) most = value_of(s);  // a NaN becomes the maximum
    const T steep = number<T>(steepness());
    std::vector<T> x;
    for (const T& s : scores) x.push_back(steep * (s - T(most)));
    // Newton steps from the left: the sum of weights is convex and decreasing, so no step passes
    // the root. The last step carries the derivatives of the scores.
    Real tau = -1;
    for (int step = 0; step < kMostSteps; ++step) {
      Real sum = 0, slopes = 0;
      for (const T& one : x) {
        const Real w = power(value_of(one) - tau);
        sum += w, slopes += slope(w);
      }
      const Real before = tau;
      tau += (sum - 1) * static_cast<Real>(steepness()) / slopes;
      if (!(tau > before)) break;
    }
    T sum(0);
    for (const T& one : x) {
      sum = sum + power(one - T(tau));
      row.slopes = row.slopes + value_of(slope(power(one - T(tau))));
    }
    const T moved = T(tau) + (sum - T(1)) * steep * inverse(T(row.slopes));
    row.divisor = T(0);
    for (const T& one : x) {
      row.powers.push_back(power(one - moved));
      row.divisor = row.divisor + row.powers.back();
    }
    row.statistic = steep * T(most) + moved;
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, decltype(value_of(T()))) const {
    return power(number<T>(steepness()) * score - statistic);
  }
  template <class T>
  T delta(const RowToPassBack<T>& row) const {
    T slopes(0), sum = -(number<T>(steepness()) * row.d_statistic);
    for (size_t x = 0; x < row.weights.size(); ++x) {
      const T u = slope(row.weights[x]);
      if (value_of(u) == 0) continue;
      slopes = slopes + u;
      sum = sum + u * row.d_weights[x];
    }
    return value_of(slopes) == 0 ? T(0) : sum * inverse(slopes);
  }
  template <class T>
  T d_score(const T&, const T& weight, const T& d_weight, const T& delta, const T&) const {
    const T u = slope(weight);
    return value_of(u) == 0 ? T(0) : u * (d_weight - delta);
  }

  // Of alpha: Correia, Niculae & Martins 2019, arXiv:1909.00015, proposition 1, and with it
  //   d tau / d alpha = (tau + sum_j (p_j - (alpha - 1) p_j ln p_j) / sum u) / (alpha - 1)
  // The derivatives of the weights sum to 0, so the same number may be subtracted from all dP. This
  // number is delta, which is near the dP of a weight of nearly 1: the distance of that weight from
  // 1 may be less than its last digit, and only this subtraction makes it count.
  template <class T>
  T d_number(const RowToPassBack<T>& row, const T& statistic, const T& delta) const {
    using std::log;
    if (row.weights.empty()) return T(0);
    T slopes(0), entropy(0);
    for (const T& p : row.weights) {
      slopes = slopes + slope(p);
      if (value_of(p) > 0) entropy = entropy - p * log(p);
    }
    const T steep = number<T>(steepness()), by_steep = inverse(steep), by_slopes = inverse(slopes);
    T sum(0), total(0);
    for (size_t x = 0; x < row.weights.size(); ++x) {
      const T& p = row.weights[x];
      if (value_of(p) == 0) continue;
      const T mean = slope(p) * by_slopes, own = -(p * log(p));
      sum = sum + (row.d_weights[x] - delta) *
                      ((p - mean) * by_steep * by_steep + (own - mean * entropy) * by_steep);
      total = total + p;
    }
    const T d_tau = (statistic + (total + steep * entropy) * by_slopes) * by_steep;
    return sum + row.d_statistic * d_tau;
  }

  double weight_error(double score, double weight, double statistic, const Off& off) const {
    const double by_sum = off.epsilon / 2 * off.slopes / steepness();
    return error_of_power(score, weight, statistic, 2 * steepness() * off.score + 8 * off.epsilon,
                          off) +
           by_sum * weight;
  }
  double statistic_error(double statistic, const Off& off) const {
    return steepness() * off.score + (7 + std::abs(statistic)) * off.epsilon;
  }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    const double again = 2 + std::abs(statistic);  // alpha - 1, the product, the sum
    return error_of_power(
        score, weight, statistic,
        steepness() * off.score + statistic_error(statistic, off) + again * off.epsilon, off);
  }
  double d_score_error(double, double weight, double d_weight, double delta, double,
                       const PairErrors& of, const Off& off) const {
    const double most = slope(weight + of.weight), difference = std::abs(d_weight - delta);
    return (slope_error(weight, of.weight, off) + 2 * off.epsilon * most) * difference +
           most * (of.d_weight + of.delta);
  }
  double delta_error(const RowToPassBack<double>& row, double delta, const RowErrors& of,
                     const Off& off) const {
    double least = 0, error = 0, sum = 0, squares = 0, slopes = 0, slope_squares = 0;
    for (size_t x = 0; x < row.weights.size(); ++x) {
      const double weight = row.weights[x], u = slope(weight), d_weight = row.d_weights[x];
      const double most = slope(weight + of.weights[x]);
      least += slope(weight - of.weights[x]);
      error += slope_error(weight, of.weights[x], off) * std::abs(d_weight - delta) +
               most * (of.d_weights[x] + off.epsilon * std::abs(d_weight));
      sum += u * d_weight, squares += u * d_weight * u * d_weight;
      slopes += u, slope_squares += u * u;
    }
    if (slopes == 0) return 0;
    const double roundings =
        off.epsilon * (0.5 + std::sqrt(static_cast<double>(row.weights.size())) / 4);
    error += roundings * (std::abs(sum) + std::sqrt(squares) +
                          std::abs(delta) * (slopes + std::sqrt(slope_squares)));
    return (error + 2 * off.epsilon * std::abs(steepness() * row.d_statistic)) / least +
           2 * off.epsilon * std::abs(delta);
  }
  // The library computes sum_j c_j (dP_j - delta) + d_tau (tau + 1) / (alpha - 1), where c is a
  // function of the weight:
  //   c(p) = p^(2 - alpha) (d - 1 - d ln d) / (alpha - 1)^2,   d = p^(alpha - 1)
  // With x = -ln d, c'(p) = ((2 - alpha) (1 - e^x) + x) / (alpha - 1)^2. Its largest values on an
  // interval are at the ends and where e^x = 1 / (2 - alpha). |c| is at most u / (alpha - 1)^2.
  // The roundings of c: the (3 + 2 |ln u|) e of the slope and 2 e for the last products, relative;
  // inside the bracket 2 e d |ln d| for the logarithm and its product, and e of each difference.
  double d_number_error(const RowToPassBack<double>& row, const RowErrors& of, double statistic,
                        double delta, double delta_error, const Off& off) const {
    if (row.weights.empty()) return 0;
    const double steep = steepness(), square = steep * steep;
    double error = 0, sum = 0, squares = 0;
    for (size_t x = 0; x < row.weights.size(); ++x) {
      const double weight = row.weights[x], most = weight + of.weights[x];
      if (most == 0) continue;
      const double u = slope(most), d = std::pow(weight, steep),
                   x_d = weight > 0 ? -std::log(d) : 0;
      const double c = weight > 0 ? slope(weight) * (d - 1 + d * x_d) / square : 0;
      const double own = u * (2 * d * x_d + std::abs(1 - d) + std::abs(d - 1 + d * x_d)) / square +
                         (5 + 2 * std::abs(std::log(u))) * std::abs(c);
      const double moved = std::min(bend(weight, of.weights[x]) * of.weights[x], u / square);
      const double difference = std::abs(row.d_weights[x] - delta);
      error +=
          (moved + off.epsilon * own) * difference + std::abs(c) * (of.d_weights[x] + delta_error);
      const double term = std::abs(c) * (std::abs(row.d_weights[x]) + std::abs(delta));
      sum += term, squares += term * term;
    }
    const double n = static_cast<double>(row.weights.size());
    error += off.epsilon * ((0.5 + std::sqrt(n) / 4) * (sum + std::sqrt(squares)) + 2 * sum);
    return error +
           std::abs(row.d_statistic) / steep *
               (statistic_error(statistic, off) + 3 * off.epsilon * (1 + std::abs(statistic)));
  }

 private:
  static constexpr int kMostSteps = 200;

  double alpha() const { return static_cast<const Self&>(*this).alpha_of(); }
  double steepness() const { return alpha() - 1; }
  template <class T>
  static T number(double x) {
    return T(static_cast<decltype(value_of(T()))>(x));
  }
  template <class T>
  T raised(const T& x, double exponent) const {
    using std::exp, std::log;
    return exp(number<T>(exponent) * log(x));
  }
  template <class T>
  T power(const T& d) const {
    if (value_of(d) <= 0) return T(0);
    return alpha() == 2 ? d : alpha() == 1.5 ? d * d : raised(d, 1 / steepness());
  }
  // u of a weight.
  template <class T>
  T slope(const T& weight) const {
    if (value_of(weight) <= 0) return T(0);
    return alpha() == 2 ? T(1) : raised(weight, 2 - alpha());
  }

  // The largest |c'(p)| of weights from p - error to p + error.
  double bend(double weight, double error) const {
    const double steep = steepness();
    const auto at = [&](double x) {
      return std::abs((2 - alpha()) * (1 - std::exp(x)) + x) / (steep * steep);
    };
    const double least = weight - error;
    if (least <= 0) return std::numeric_limits<double>::infinity();
    const double most =
        std::max(at(-steep * std::log(least)), at(-steep * std::log(weight + error)));
    return alpha() < 2 ? std::max(most, at(-std::log(2 - alpha()))) : most;
  }

  double error_of_power(double score, double weight, double statistic, double of_d,
                        const Off& off) const {
    const double most = power(steepness() * score - statistic + of_d);
    if (most == 0) return 0;
    return std::max(most - weight, 0.0) + (5 + 2 * std::abs(std::log(most))) * off.epsilon * most;
  }
  double slope_error(double weight, double weight_error, const Off& off) const {
    const double most = slope(weight + weight_error), least = slope(weight - weight_error);
    if (most == 0) return 0;
    return most - least + (3 + 2 * std::abs(std::log(most))) * off.epsilon * most;
  }
};

struct SparsemaxReference : EntmaxFamily<SparsemaxReference> {
  static constexpr std::string_view kName = "sparsemax";
  static constexpr std::array<NormalizerParameter<SparsemaxReference>, 0> kParameters = {};
  static double alpha_of() { return 2; }
  SparsemaxReference of_length(int64_t) const { return {}; }
};

struct Entmax15Reference : EntmaxFamily<Entmax15Reference> {
  static constexpr std::string_view kName = "entmax15";
  static constexpr std::array<NormalizerParameter<Entmax15Reference>, 0> kParameters = {};
  static double alpha_of() { return 1.5; }
  Entmax15Reference of_length(int64_t) const { return {}; }
};

struct EntmaxReference : EntmaxFamily<EntmaxReference> {
  static constexpr std::string_view kName = "entmax";
  std::optional<double> alpha = {}, alphas = {};  // of all heads, or of each: one of them
  static constexpr std::array<NormalizerParameter<EntmaxReference>, 2> kParameters = {
      {{"alpha", &EntmaxReference::alpha}, {"alphas", &EntmaxReference::alphas}}};
  bool operator==(const EntmaxReference&) const = default;
  double alpha_of() const { return alphas.value_or(alpha.value_or(1.5)); }
  EntmaxReference of_length(int64_t) const { return *this; }
};

}  // namespace check
