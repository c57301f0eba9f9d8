#pragma once
// The rounding errors of a normaliser: errors_of(n) has the functions that
// normalizer_error_formula.h lists.
#include "check/reference/normalizer.h"
#include "normalizer_errors.inc"  // the headers of normalizers/, written by the build

namespace check {

template <class N>
NormalizerErrors<N> errors_of(const N& n) {
  return NormalizerErrors<N>(n);
}

// The inputs of the error bounds of a row, from weigh() of its unmasked `scores`.
template <class T>
Off off_of_row(const Normalizer& normalizer, std::span<const T> scores, const Weighed<T>& weighed,
               double score_error, double epsilon) {
  Off off{score_error, epsilon};
  off.slopes = static_cast<double>(weighed.slopes), off.cut = static_cast<double>(weighed.cut);
  off.sum = epsilon * std::sqrt(static_cast<double>(scores.size())) / 4;  // tolerance.h
  std::visit(
      [&](const auto& n) {
        const auto errors = errors_of(n);
        if constexpr (requires { errors.score_error(off); }) off.score = errors.score_error(off);
        if constexpr (requires { errors.condition(scores, weighed.divisor); })
          off.condition = static_cast<double>(errors.condition(scores, weighed.divisor));
        const std::vector<double> doubles(scores.begin(), scores.end());
        if constexpr (requires { errors.doubt(std::span(doubles), 0.0, off); })
          off.doubt = errors.doubt(doubles, static_cast<double>(weighed.statistic), off);
      },
      normalizer);
  return off;
}

}  // namespace check
