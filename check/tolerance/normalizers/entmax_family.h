#pragma once
// The rounding errors of entmax_family.h, if every score has the error sigma.
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
#include "check/reference/entmax_family.h"
#include "check/tolerance/normalizer_error_formula.h"

namespace check {

template <class N>
requires std::is_base_of_v<EntmaxFamily<N>, N>
struct NormalizerErrors<N> : PlainErrors<N> {
  using PlainErrors<N>::PlainErrors;

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
    const double most = this->n.slope(weight + of.weight), difference = std::abs(d_weight - delta);
    return (slope_error(weight, of.weight, off) + 2 * off.epsilon * most) * difference +
           most * (of.d_weight + of.delta);
  }
  double delta_error(const RowToPassBack<double>& row, double delta, const ErrorsToPassBack& of,
                     const Off& off) const {
    double least = 0, error = 0, sum = 0, squares = 0, slopes = 0, slope_squares = 0;
    for (size_t x = 0; x < row.weights.size(); ++x) {
      const double weight = row.weights[x], u = this->n.slope(weight), d_weight = row.d_weights[x];
      const double most = this->n.slope(weight + of.weights[x]);
      least += this->n.slope(weight - of.weights[x]);
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
  double d_number_error(const RowToPassBack<double>& row, const ErrorsToPassBack& of,
                        double statistic, double delta, double delta_error, const Off& off) const {
    if (row.weights.empty()) return 0;
    const double steep = steepness(), square = steep * steep;
    double error = 0, sum = 0, squares = 0;
    for (size_t x = 0; x < row.weights.size(); ++x) {
      const double weight = row.weights[x], most = weight + of.weights[x];
      if (most == 0) continue;
      const double u = this->n.slope(most), d = std::pow(weight, steep),
                   x_d = weight > 0 ? -std::log(d) : 0;
      const double c = weight > 0 ? this->n.slope(weight) * (d - 1 + d * x_d) / square : 0;
      const double own = u * (2 * d * x_d + std::abs(1 - d) + std::abs(d - 1 + d * x_d)) / square +
                         (5 + 2 * std::abs(std::log(u))) * std::abs(c);
      const double moved = std::min(bend(weight, of.weights[x]) * of.weights[x], u / square);
      const double difference = std::abs(row.d_weights[x] - delta);
      error +=
          (moved + off.epsilon * own) * difference + std::abs(c) * (of.d_weights[x] + delta_error);
      const double term = std::abs(c) * (std::abs(row.d_weights[x]) + std::abs(delta));
      sum += term, squares += term * term;
    }
    const auto count = static_cast<double>(row.weights.size());
    error += off.epsilon * ((0.5 + std::sqrt(count) / 4) * (sum + std::sqrt(squares)) + 2 * sum);
    return error +
           std::abs(row.d_statistic) / steep *
               (statistic_error(statistic, off) + 3 * off.epsilon * (1 + std::abs(statistic)));
  }

 private:
  double steepness() const { return this->n.steepness(); }
  // The largest |c'(p)| of weights from p - error to p + error.
  double bend(double weight, double error) const {
    const double steep = steepness();
    const auto at = [&](double x) {
      return std::abs((2 - this->n.alpha_of()) * (1 - std::exp(x)) + x) / (steep * steep);
    };
    const double least = weight - error;
    if (least <= 0) return std::numeric_limits<double>::infinity();
    const double most =
        std::max(at(-steep * std::log(least)), at(-steep * std::log(weight + error)));
    return this->n.alpha_of() < 2 ? std::max(most, at(-std::log(2 - this->n.alpha_of()))) : most;
  }

  double error_of_power(double score, double weight, double statistic, double of_d,
                        const Off& off) const {
    const double most = this->n.power(steepness() * score - statistic + of_d);
    if (most == 0) return 0;
    return std::max(most - weight, 0.0) + (5 + 2 * std::abs(std::log(most))) * off.epsilon * most;
  }
  double slope_error(double weight, double weight_error, const Off& off) const {
    const double most = this->n.slope(weight + weight_error),
                 least = this->n.slope(weight - weight_error);
    if (most == 0) return 0;
    return most - least + (3 + 2 * std::abs(std::log(most))) * off.epsilon * most;
  }
};

}  // namespace check
