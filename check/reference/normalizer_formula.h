#pragma once
// The types of the formulas in normalizers/: how the scores of a row become weights, and how
// gradients of weights become gradients of scores.
//
// The formula of a normaliser is a struct in a file of that folder, named after the normaliser:
// top_k_softmax.h has TopKSoftmaxReference. The build lists them. It derives from NormalizerFormula
// or from a family (softmax_family.h, entmax_family.h), and has
//
//   kName                as in the library
//   kParameters          likewise; a parameter at its default is nullopt
//   kHasStatistic        there is a number per row, which may have a gradient
//   kSparse              most weights are exactly 0: no weight is rounded to 16 bits, and there are
//                        no tangents
//   has_gradient()       a parameter has a gradient
//   of_length(n)         the same normaliser for rows over n keys, masked ones included; sets the
//                        parameters that were not given
//   weigh(scores)        the row over the keys that a query attends to, maybe none: see Weighed
//   weight(score, statistic, cut)   the weight of one key again, as in the backward pass
//   delta(row)           the number that d_score() subtracts: see RowToPassBack
//   d_score(score, weight, d_weight, delta, statistic)   the gradient of a score from that of its
//                        weight
//   d_number(row, statistic, delta)   the contribution of a row to the gradient of the parameter
//
// over numbers T (numbers.h). Shares no code with the library.
#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "check/reference/numbers.h"

namespace check {

// weight = power / divisor. If the products round weights to 16 bits, the powers are rounded.
template <class T>
struct Weighed {
  std::vector<T> powers;
  T divisor = T(1), statistic = T(0);
  RealOf<T> slopes = 0;  // of entmax: sum_j u_j
  RealOf<T> cut = 0;     // of top-k: the smallest score that has a weight
};

// The inputs of delta(): of the keys that a query attends to, and of the row.
template <class T>
struct RowToPassBack {
  std::span<const T> weights, d_weights;
  T d_statistic;
  T of_output;  // the delta of softmax: d_output . output + sum_j p d_weights - d_statistic
};

// A parameter of the normaliser N.
template <class N>
struct NormalizerParameter {
  std::string_view name;
  std::optional<double> N::*value;
};

// What most normalisers have.
template <class Self>
struct NormalizerFormula {
  static constexpr bool kHasStatistic = true;
  static constexpr bool kSparse = false;
  static constexpr std::array<NormalizerParameter<Self>, 0> kParameters = {};
  bool operator==(const NormalizerFormula&) const = default;

  bool has_gradient() const { return false; }
  Self of_length(int64_t) const { return self(); }
  template <class T>
  T delta(const RowToPassBack<T>& row) const {
    return row.of_output;
  }
  template <class T>
  T d_number(const RowToPassBack<T>&, const T&, const T&) const {
    return T(0);
  }

 protected:
  const Self& self() const { return static_cast<const Self&>(*this); }
};

// Each weight is a function of its own score: there is neither a number per row nor a delta.
template <class Self>
struct PointwiseFormula : NormalizerFormula<Self> {
  static constexpr bool kHasStatistic = false;
  bool operator==(const PointwiseFormula&) const = default;
  template <class T>
  T delta(const RowToPassBack<T>&) const {
    return T(0);
  }
};

// The largest score; a NaN, if there is one. `most`: of no score.
template <class T>
RealOf<T> largest_of(std::span<const T> scores, RealOf<T> most) {
  for (const T& s : scores)
    if (!std::isnan(most) && !(value_of(s) <= most)) most = value_of(s);
  return most;
}

template <class T>
constexpr RealOf<T> kInfinityOf = std::numeric_limits<RealOf<T>>::infinity();

}  // namespace check
