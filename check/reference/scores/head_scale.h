#pragma once
// s' = scale s, a scale per head.
#include "check/reference/score_formula.h"

namespace check {

struct HeadScaleReference {
  static constexpr std::string_view kName = "head_scale";

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace&) const {
    return {own[0] * s, own[0], {s}};
  }
};

}  // namespace check
