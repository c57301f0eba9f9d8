#pragma once
// The types of the rounding errors in normalizers/. Each family of normalisers, or a formula on its
// own, has a specialisation of NormalizerErrors in a file of that folder. The build lists the
// files. It has
//
//   weight_error(score, weight, statistic, off)         of weigh()
//   statistic_error(statistic, off)
//   weight_error_again(score, weight, statistic, off)   of weight(): the statistic was stored
//   delta_error(row, delta, errors of the row, off)
//   d_score_error(score, weight, d_weight, delta, statistic, of, off)
//   d_number_error(row, errors of the row, statistic, delta, error of delta, off)
//   score_error(off)                if the error bound of the scores is not that of `off`
//   doubt(scores, statistic, off)   if there is a cut: see Off
//   condition(scores, divisor)      if the sum is one of differences: see Off
#include <algorithm>

#include "check/reference/normalizer_formula.h"

namespace check {

// Inputs of the error bounds: the error bound of every score; the relative error of one operation
// of the dtype; `slopes` and `cut` of the row, as weigh() returns them; `condition`, the sum of the
// sizes of the terms of a sum of differences, relative to it; `doubt`, the share of the sum of the
// weights that may come or go as scores pass the cut; `sum`, the error of adding up the scores'
// results, relative to the sum.
struct Off {
  double score, epsilon, slopes = 0, cut = 0, condition = 0, doubt = 0, sum = 0;
};

// The errors of the members of RowToPassBack.
struct ErrorsToPassBack {
  std::span<const double> weights, d_weights;
  double of_output;
};

// The errors of the inputs of d_score().
struct PairErrors {
  double weight, d_weight, delta;
};

template <class N>
struct NormalizerErrors;

// Of a normaliser whose delta is that of softmax, and none of whose parameters has a gradient.
template <class N>
struct PlainErrors {
  const N& n;
  explicit PlainErrors(const N& of) : n(of) {}

  double delta_error(const RowToPassBack<double>&, double, const ErrorsToPassBack& of,
                     const Off&) const {
    return of.of_output;
  }
  double d_number_error(const RowToPassBack<double>&, const ErrorsToPassBack&, double, double,
                        double, const Off&) const {
    return 0;
  }
};

// Of weights that are functions of their own score: there is no number per row and no delta, and so
// nothing that adds to the errors of f and f'.
template <class N>
struct PointwiseErrors : PlainErrors<N> {
  using PlainErrors<N>::PlainErrors;

  double statistic_error(double, const Off&) const { return 0; }
  double weight_error_again(double score, double weight, double statistic, const Off& off) const {
    return NormalizerErrors<N>(this->n).weight_error(score, weight, statistic, off);
  }
  double delta_error(const RowToPassBack<double>&, double, const ErrorsToPassBack&,
                     const Off&) const {
    return 0;
  }
};

}  // namespace check
