#pragma once
// s' = limit tanh s.
#include "check/reference/score_formula.h"

namespace check {

struct TanhClipReference {
  static constexpr std::string_view kName = "tanh_clip";

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace&) const {
    const N t = tanh(s);
    return {own[0] * t, own[0] * (N(1) - t * t), {t}};
  }
};

}  // namespace check
