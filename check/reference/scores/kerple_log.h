#pragma once
// s' = s - a ln(1 + b |i - j|), an amplitude a and a rate b per head.
#include "check/reference/score_formula.h"

namespace check {

struct KerpleLogReference {
  static constexpr std::string_view kName = "kerple_log";
  AnchoredPositions positions;

  explicit KerpleLogReference(const VariantArguments& arguments) : positions(arguments) {}

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace& place) const {
    const N d = of_double<N>(std::abs(static_cast<double>(positions.ahead(place))));
    const N grown = log1p(own[1] * d);
    return {s - own[0] * grown, N(1), {-grown, -(own[0] * d) / (N(1) + own[1] * d)}};
  }
};

}  // namespace check
