#pragma once
// s' = cap tanh(s / cap).
#include "check/reference/score_formula.h"

namespace check {

struct SoftcapReference {
  static constexpr std::string_view kName = "softcap";

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace&) const {
    const N part = s / own[0], t = tanh(part), slope = N(1) - t * t;
    return {own[0] * t, slope, {t - part * slope}};
  }
};

}  // namespace check
