#pragma once
// Normalisers whose weights are functions of their own score, weight_j = f(score_j), and their
// gradients dS = f' dP: see reference_normalizer.h. There is no number per row (it is 0) and no
// delta, and so nothing that adds to the errors of f and f'.
#include "check/reference/reference_normalizer.h"

namespace check {

template <class Self>
struct PointwiseFamily {
  static constexpr bool kHasStatistic = false;
  static constexpr bool kSparse = false;
  bool operator==(const PointwiseFamily&) const = default;

  // No parameter has a gradient.
  template <class T>
  T d_number(const RowToPassBack<T>&, const T&, const T&) const {
    return T(0);
  }
  double d_number_error(const RowToPassBack<double>&, const RowErrors&, double, double, double,
                        const Off&) const {
    return 0;
  }

  template <class T>
  T delta(const RowToPassBack<T>&) const {
    return T(0);
  }

  double statistic_error(double, const Off&) const { return 0; }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    return self().weight_error(score, weight, statistic, off);
  }
  double delta_error(const RowToPassBack<double>&, double, const RowErrors&, const Off&) const {
    return 0;
  }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

}  // namespace check
