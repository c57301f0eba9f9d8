#pragma once
// s' = s - slope |i - j|, or s - slope (i - j) if distances are signed; a slope per head.
#include "check/reference/score_formula.h"

namespace check {

struct AlibiReference {
  static constexpr std::string_view kName = "alibi";
  static constexpr double kSpread = 0.3;  // as large as slopes are in models, of either sign
  AnchoredPositions positions;
  bool is_signed;

  explicit AlibiReference(const VariantArguments& arguments)
      : positions(arguments), is_signed(arguments.words.at("distance") == "signed") {}

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace& place) const {
    const auto behind = static_cast<double>(-positions.ahead(place));
    const N d = of_double<N>(is_signed ? behind : std::abs(behind));
    return {s - own[0] * d, N(1), {-d}};
  }
};

}  // namespace check
