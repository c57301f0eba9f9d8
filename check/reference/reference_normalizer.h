#pragma once
// The normalisers as the references know them: how the scores of a row become weights, and how
// gradients of weights become those of scores. One struct each, a file each, all of them in
// `Normalizer` below; what families share stands in reference_pointwise.h (each weight by its own
// score), reference_softmax.h and reference_entmax.h. With
//
//   kName, kParameters   as the library calls them; a parameter that was not given is nullopt
//   kHasStatistic        is there a number per row, which may have a gradient?
//   kSparse              are most weights exactly 0? Then the forward pass adds up the few values
//                        that have one, and rounds no weight to 16 bits; and there are no tangents
//   of_length(n)         the same for rows over n keys, seen or not: what parameters that were not
//                        given are there
//   weigh(scores)        of the keys that a query sees, maybe none: see Weighed
//   weight(score, statistic, cut)   the weight of one key again, as the backward pass makes it
//   delta(row)           what d_score() subtracts: see RowToPassBack
//   d_score(score, weight, d_weight, delta)   the gradient of a score from that of its weight
//
//   d_number(row, statistic, delta)   what a row gives to the gradient of the parameter; 0 without
//
// over numbers T: a Real (float, double, long double), or one that knows how it moves
// (dual_numbers.h), which has exp(), log(), inverse(), value_of(), positive_part() and
// is_positive(), too. And how far off the dtype may be:
//
//   weight_error(score, weight, statistic, off)         of weigh()
//   statistic_error(statistic, off)
//   weight_error_again(score, weight, statistic, off)   of weight(): the statistic was stored
//   delta_error(row, delta, errors of the row, off)
//   d_score_error(score, weight, difference, of, off)   difference = d_weight - delta
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

// How far every score may be off, and one operation of the dtype, relative to its result; what
// weigh() says of the row; the share of the sum of its weights that may come or go as scores pass
// the cut; and how far adding up what its scores become is off, relative to the sum.
struct Off {
  double score, epsilon, slopes = 0, cut = 0, doubt = 0, sum = 0;
};

// What delta() is made of: of the keys that a query sees, and of the row.
template <class T>
struct RowToPassBack {
  std::span<const T> weights, d_weights;
  T d_statistic;
  T of_output;  // the delta of softmax: d_output . output + sum_j p d_weights - d_statistic
};
// How far off that is.
struct RowErrors {
  std::span<const double> weights, d_weights;
  double of_output;
};

// How far off is what d_score() is made of.
struct PairErrors {
  double weight, d_weight, delta;
};

template <class Real>
Real value_of(Real x) {
  return x;
}

// weight = power / divisor. Where the products round weights to 16 bits, it is powers that are
// rounded.
template <class T>
struct Weighed {
  std::vector<T> powers;
  T divisor = T(1), statistic = T(0);
  decltype(value_of(T())) slopes = 0;  // of sparse normalisers: sum_j u_j
  decltype(value_of(T())) cut = 0;     // the least score that has a weight, where that is needed
};

// A parameter of the normaliser N: a number in [least, most].
template <class N>
struct NormalizerParameter {
  std::string_view name;
  std::optional<double> N::*value;
  double least, most;
  bool whole;
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
#include "check/reference/reference_top_k.h"

namespace check {

using Normalizer = std::variant<SoftmaxReference, SoftmaxPlusOneReference, SigmoidReference,
                                ReluReference, SoftmaxWithSinkReference, SparsemaxReference,
                                Entmax15Reference, EntmaxReference, TopKSoftmaxReference>;

inline Normalizer of_length(const Normalizer& normalizer, int64_t k_len) {
  return std::visit([&](const auto& n) { return Normalizer(n.of_length(k_len)); }, normalizer);
}
// Does a parameter have a gradient?
inline bool has_gradient(const Normalizer& normalizer) {
  const auto* entmax = std::get_if<EntmaxReference>(&normalizer);
  return std::holds_alternative<SoftmaxWithSinkReference>(normalizer) ||
         (entmax && (entmax->alpha || entmax->alphas));
}
// What weigh() says of a row, and what follows from it, for its errors; `scores` that are seen.
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
