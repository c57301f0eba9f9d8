#pragma once
// Feature maps by their formulas: phi(x) of one token, and the gradient of x from that of phi(x).
//
//   positive       e^(B w . x + A |w|^2 - |x|^2 / 2)           B = sqrt(1 - 4 A)
//   hyperbolic     that of B and that of -B
//   trigonometric  e^(|x|^2 / 2) cos(w . x), e^(|x|^2 / 2) sin(w . x)
//   elu            x + 1 for x > 0, else e^x                   relu   max(0, x)
//   taylor         1, x_i, and for i <= j x_i x_j, with 1 / sqrt(2) where i = j
//
// w are the rows of the projection. Sources: Choromanski et al. 2021, arXiv:2009.14794;
// Likhosherstov et al. 2022, arXiv:2205.15317; Katharopoulos et al. 2020, arXiv:2006.16236; Arora
// et al. 2024, arXiv:2402.18668.
#include <algorithm>
#include <cmath>
#include <vector>

#include "check/reference/feature_problem.h"
#include "check/reference/numbers.h"

namespace check {

using std::cos, std::sin, std::sqrt;

// The sum of terms, one after the other. Numbers that carry an error have a sum of their own.
template <class N>
class Sum {
 public:
  void add(const N& term) { sum_ = sum_ + term; }
  N value() const { return sum_; }

 private:
  N sum_{};
};

// An exponent that a kernel computes as a difference of numbers of this size. Numbers that carry an
// error have a function of this name.
template <std::floating_point Real>
Real of_difference(Real exponent, Real) {
  return exponent;
}

template <class N>
class Features {
 public:
  using Row = std::vector<N>;

  Features(const FeatureProblem& p, int64_t head_dim)
      : p_(p), dims_(static_cast<size_t>(head_dim)), rows_(static_cast<size_t>(p.rows)) {
    for (const double w : p.projection) projection_.push_back(of_double<N>(w));
    root_ = sqrt(of_double<N>(1 - 4 * p.exponent));
    for (size_t r = 0; r < rows_; ++r) {
      double square = 0;
      for (size_t d = 0; d < dims_; ++d) square += w_number(r, d) * w_number(r, d);
      offsets_.push_back(of_double<N>(p.exponent * square));
    }
  }

  // phi(x)
  Row of(const Row& x) const {
    switch (p_.map) {
      case FeatureMap::positive:
      case FeatureMap::hyperbolic:
        return exponentials(x);
      case FeatureMap::trigonometric:
        return waves(x);
      case FeatureMap::taylor:
        return terms(x);
      default:
        return per_dimension(x);
    }
  }

  // The gradient of x from that of f = phi(x).
  Row gradient(const Row& x, const Row& f, const Row& d_f) const {
    std::vector<Sum<N>> d(dims_);
    switch (p_.map) {
      case FeatureMap::elu:
      case FeatureMap::relu:
        for (size_t i = 0; i < dims_; ++i) d[i].add(d_f[i] * slope(x[i], f[i]));
        break;
      case FeatureMap::taylor:
        of_terms(x, d_f, d);
        break;
      default:
        of_projections(x, f, d_f, d);
    }
    Row values;
    for (const Sum<N>& sum : d) values.push_back(sum.value());
    return values;
  }

 private:
  double w_number(size_t r, size_t d) const { return p_.projection[r * dims_ + d]; }
  const N& w(size_t r, size_t d) const { return projection_[r * dims_ + d]; }
  static N half() { return constant<N>(0.5); }

  N projected(const Row& x, size_t r) const {
    Sum<N> s;
    for (size_t d = 0; d < dims_; ++d) s.add(w(r, d) * x[d]);
    return s.value();
  }
  N half_square(const Row& x) const {
    Sum<N> s;
    for (size_t d = 0; d < dims_; ++d) s.add(half() * x[d] * x[d]);
    return s.value();
  }

  Row exponentials(const Row& x) const {
    const N below = half_square(x);
    Row plus, minus;
    N largest{};
    for (size_t r = 0; r < rows_; ++r) {
      const N s = root_ * projected(x, r);
      plus.push_back(s + offsets_[r] - below);
      minus.push_back(-s + offsets_[r] - below);
      for (const N& part : {s, s + offsets_[r], below})
        if (std::abs(value_of(part)) > std::abs(value_of(largest))) largest = part;
    }
    if (p_.map == FeatureMap::hyperbolic) plus.insert(plus.end(), minus.begin(), minus.end());
    for (N& exponent : plus) exponent = exp(of_difference(exponent, largest));
    return plus;
  }

  Row waves(const Row& x) const {
    const N factor = exp(half_square(x));
    Row f;
    for (size_t r = 0; r < rows_; ++r) f.push_back(factor * cos(projected(x, r)));
    for (size_t r = 0; r < rows_; ++r) f.push_back(factor * sin(projected(x, r)));
    return f;
  }

  Row per_dimension(const Row& x) const {
    const N one = constant<N>(1);
    Row f;
    for (const N& v : x) {
      if (p_.map == FeatureMap::relu)
        f.push_back(positive_part(v));
      else
        f.push_back(value_of(v) <= 0 ? exp(v) : v + one);
    }
    return f;
  }
  N slope(const N& x, const N& f) const {
    if (p_.map == FeatureMap::elu && value_of(x) <= 0) return f;
    return std::isnan(value_of(x)) ? x : is_positive(x);
  }

  Row terms(const Row& x) const {
    const N root = sqrt(half());
    Row f = {constant<N>(1)};
    f.insert(f.end(), x.begin(), x.end());
    for (size_t i = 0; i < dims_; ++i)
      for (size_t j = i; j < dims_; ++j) f.push_back(i == j ? x[i] * x[i] * root : x[i] * x[j]);
    return f;
  }
  void of_terms(const Row& x, const Row& d_f, std::vector<Sum<N>>& d) const {
    const N root = sqrt(constant<N>(2));
    for (size_t i = 0; i < dims_; ++i) d[i].add(d_f[1 + i]);
    size_t at = 1 + dims_;
    for (size_t i = 0; i < dims_; ++i)
      for (size_t j = i; j < dims_; ++j, ++at) {
        d[i].add(i == j ? d_f[at] * root * x[i] : d_f[at] * x[j]);
        if (i != j) d[j].add(d_f[at] * x[i]);
      }
  }

  // Exponents have the gradients d_f f: plus or minus B w from w . x, minus x from -|x|^2 / 2.
  // Waves have the gradients of cos and sin, and plus x from |x|^2 / 2.
  void of_projections(const Row& x, const Row& f, const Row& d_f, std::vector<Sum<N>>& d) const {
    const bool waves = p_.map == FeatureMap::trigonometric;
    Sum<N> of_square;
    for (size_t k = 0; k < f.size(); ++k) of_square.add(waves ? d_f[k] * f[k] : -(d_f[k] * f[k]));
    for (size_t r = 0; r < rows_; ++r) {
      Sum<N> of_row;
      if (waves) {
        of_row.add(d_f[r + rows_] * f[r]);
        of_row.add(-(d_f[r] * f[r + rows_]));
      } else {
        of_row.add(root_ * (d_f[r] * f[r]));
        if (f.size() > rows_) of_row.add(-(root_ * (d_f[r + rows_] * f[r + rows_])));
      }
      for (size_t i = 0; i < dims_; ++i) d[i].add(of_row.value() * w(r, i));
    }
    for (size_t i = 0; i < dims_; ++i) d[i].add(of_square.value() * x[i]);
  }

  const FeatureProblem& p_;
  const size_t dims_, rows_;
  Row projection_, offsets_;
  N root_{};
};

}  // namespace check
