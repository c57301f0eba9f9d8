#pragma once
// The sparse normalisers of alpha-entmax (Peters, Niculae & Martins 2019, arXiv:1905.05702;
// sparsemax, alpha = 2: Martins & Astudillo 2016, arXiv:1602.02068).
//
//   weight_j = [d_j]_+^q,  d_j = (alpha - 1) score_j - tau,  q = 1 / (alpha - 1),
//   where the statistic tau makes the weights sum to 1; it is -inf without keys
//   u_j = weight_j^(2 - alpha) where weight_j > 0, else 0: the slope
//   delta = (sum_j u_j dP_j - (alpha - 1) d_tau) / sum_j u_j      dS_j = u_j (dP_j - delta)
#include "check/reference/normalizer_formula.h"

namespace check {

template <class Self>
struct EntmaxFamily : NormalizerFormula<Self> {
  static constexpr bool kSparse = true;
  bool operator==(const EntmaxFamily&) const = default;

  template <class T>
  Weighed<T> weigh(std::span<const T> scores) const {
    using Real = RealOf<T>;
    Weighed<T> row;
    row.statistic = T(-kInfinityOf<T>);
    if (scores.empty()) return row;
    const Real most = largest_of(scores, value_of(scores.front()));
    const T steep = constant<T>(steepness());
    std::vector<T> x;
    for (const T& s : scores) x.push_back(steep * (s - T(most)));
    // Newton steps from the left: the sum of weights is convex and decreasing, so no step passes
    // the root. The last step carries the derivatives of the scores.
    constexpr int kMostSteps = 200;
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
      const T w = power(one - T(tau));
      sum = sum + w;
      row.slopes = row.slopes + value_of(slope(w));
    }
    const T last = T(tau) + (sum - T(1)) * steep * inverse(T(row.slopes));
    row.divisor = T(0);
    for (const T& one : x) {
      row.powers.push_back(power(one - last));
      row.divisor = row.divisor + row.powers.back();
    }
    row.statistic = steep * T(most) + last;
    return row;
  }
  template <class T>
  T weight(const T& score, const T& statistic, RealOf<T>) const {
    return power(constant<T>(steepness()) * score - statistic);
  }
  template <class T>
  T delta(const RowToPassBack<T>& row) const {
    T slopes(0), sum = -(constant<T>(steepness()) * row.d_statistic);
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
    if (row.weights.empty()) return T(0);
    T slopes(0), entropy(0);
    for (const T& p : row.weights) {
      slopes = slopes + slope(p);
      if (value_of(p) > 0) entropy = entropy - p * log(p);
    }
    const T steep = constant<T>(steepness()), by_steep = inverse(steep),
            by_slopes = inverse(slopes);
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

  double alpha() const { return this->self().alpha_of(); }
  double steepness() const { return alpha() - 1; }
  template <class T>
  T power(const T& d) const {
    if (value_of(d) <= 0) return T(0);
    return alpha() == 2 ? d : alpha() == 1.5 ? d * d : raised(d, 1 / steepness());
  }
  // u of a weight.
  template <class T>
  T slope(const T& weight) const {
    if (value_of(weight) <= 0) return T(0);
    if (std::isnan(value_of(weight))) return weight;
    return alpha() == 2 ? T(1) : raised(weight, 2 - alpha());
  }

 private:
  template <class T>
  T raised(const T& x, double exponent) const {
    return exp(constant<T>(exponent) * log(x));
  }
};

}  // namespace check
