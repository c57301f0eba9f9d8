#pragma once
// The normalisers of the references: how the scores of a row become weights, and how gradients of
// weights become gradients of scores. Each is a struct in a file; `Normalizer` below lists them
// all. Families share reference_pointwise.h (each weight is a function of its own score),
// reference_softmax.h and reference_entmax.h. A normaliser has
//
//   kName, kParameters   as in the library; a parameter at its default is nullopt
//   kHasStatistic        there is a number per row, which may have a gradient
//   kSparse              most weights are exactly 0. The forward pass then sums only the values
//                        with a weight, and rounds no weight to 16 bits; there are no tangents
//   of_length(n)         the same normaliser for rows over n keys, masked ones included; sets the
//                        parameters that were not given
//   weigh(scores)        the row over the keys that a query attends to, maybe none: see Weighed
//   weight(score, statistic, cut)   the weight of one key again, as in the backward pass
//   delta(row)           the number that d_score() subtracts: see RowToPassBack
//   d_score(score, weight, d_weight, delta, statistic)   the gradient of a score from that of its
//                        weight
//
//   d_number(row, statistic, delta)   the contribution of a row to the gradient of the parameter; 0
//                        if there is none
//
// over numbers T: a Real (float, double, long double), or a dual number (dual_numbers.h), which
// also has exp(), log(), inverse(), value_of(), positive_part() and is_positive(). The error bounds
// of the dtype are
//
//   weight_error(score, weight, statistic, off)         of weigh()
//   statistic_error(statistic, off)
//   weight_error_again(score, weight, statistic, off)   of weight(): the statistic was stored
//   delta_error(row, delta, errors of the row, off)
//   d_score_error(score, weight, d_weight, delta, statistic, of, off)
//   d_number_error(row, errors of the row, statistic, delta, error of delta, off)
//   doubt(scores, statistic, off)   if there is a cut: see Off
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace check {

// Inputs of the error bounds: the error bound of every score; the relative error of one operation
// of the dtype; `slopes`, `cut` and `condition` of the row, as weigh() returns them; `doubt`, the
// share of the sum of the weights that may come or go as scores pass the cut; `sum`, the error of
// adding up the scores' results, relative to the sum.
struct Off {
  double score, epsilon, slopes = 0, cut = 0, condition = 0, doubt = 0, sum = 0;
};

// The inputs of delta(): of the keys that a query attends to, and of the row.
template <class T>
struct RowToPassBack {
  std::span<const T> weights, d_weights;
  T d_statistic;
  T of_output;  // the delta of softmax: d_output . output + sum_j p d_weights - d_statistic
};
// The errors of the members of RowToPassBack.
struct RowErrors {
  std::span<const double> weights, d_weights;
  double of_output;
};

// The errors of the inputs of d_score().
struct PairErrors {
  double weight, d_weight, delta;
};

template <class Real>
Real value_of(Real x) {
  return x;
}

// weight = power / divisor. If the products round weights to 16 bits, the powers are rounded.
template <class T>
struct Weighed {
  std::vector<T> powers;
  T divisor = T(1), statistic = T(0);
  decltype(value_of(T())) slopes = 0;  // of sparse normalisers: sum_j u_j
  decltype(value_of(T())) cut = 0;     // the smallest score that has a weight, if needed
  // The condition number of a sum of differences: the sum of the sizes of its terms, relative to
  // it.
  decltype(value_of(T())) condition = 0;
};

// A parameter of the normaliser N.
template <class N>
struct NormalizerParameter {
  std::string_view name;
  std::optional<double> N::*value;
};

template <class Real>
Real inverse(Real x) {
  return 1 / x;
}
template <class Real>
Real positive_part(Real x) {
  return x <= 0 ? Real{0} : x;  // a NaN stays
}
template <class Real>
Real is_positive(Real x) {  // the derivative of positive_part(); 0 at 0
  return x <= 0 ? Real{0} : Real{1};
}

}  // namespace check

#include "check/reference/reference_entmax.h"
#include "check/reference/reference_relu.h"
#include "check/reference/reference_sigmoid.h"
#include "check/reference/reference_softmax.h"
#include "check/reference/reference_softpick.h"
#include "check/reference/reference_top_k.h"

namespace check {

using Normalizer =
    std::variant<SoftmaxReference, SoftmaxPlusOneReference, SigmoidReference, ReluReference,
                 SoftmaxWithSinkReference, SparsemaxReference, Entmax15Reference, EntmaxReference,
                 TopKSoftmaxReference, SoftpickReference>;

inline Normalizer of_length(const Normalizer& normalizer, int64_t k_len) {
  return std::visit([&](const auto& n) { return Normalizer(n.of_length(k_len)); }, normalizer);
}
// Whether a parameter has a gradient.
inline bool has_gradient(const Normalizer& normalizer) {
  const auto* entmax = std::get_if<EntmaxReference>(&normalizer);
  return std::holds_alternative<SoftmaxWithSinkReference>(normalizer) ||
         (entmax && (entmax->alpha || entmax->alphas));
}
// The inputs of the error bounds of a row, from weigh() of its unmasked `scores`.
inline Off off_of_row(const Normalizer& normalizer, std::span<const double> scores,
                      double statistic, Off off) {
  off.sum = off.epsilon * std::sqrt(static_cast<double>(scores.size())) / 4;  // tolerance.h
  std::visit(
      [&](const auto& n) {
        if constexpr (requires { n.doubt(scores, statistic, off); })
          off.doubt = n.doubt(scores, statistic, off);
      },
      normalizer);
  return off;
}
inline bool is_sparse(const Normalizer& normalizer) {
  return std::visit([](const auto& n) { return n.kSparse; }, normalizer);
}
inline bool has_statistic(const Normalizer& normalizer) {
  return std::visit([](const auto& n) { return n.kHasStatistic; }, normalizer);
}

}  // namespace check
