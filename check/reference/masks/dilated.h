#pragma once
// i + o - j is k step with |k| <= window. o is as in causal.h.
#include <cstdlib>

#include "check/reference/mask_predicate.h"

namespace check {

struct DilatedPredicate : AnchoredBatches {
  static constexpr std::string_view kName = "dilated";
  int64_t window, step;

  explicit DilatedPredicate(const VariantArguments& arguments)
      : AnchoredBatches(arguments),
        window(arguments.integers.at("window")),
        step(arguments.integers.at("step")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const int64_t d = ahead(place, tensors);
    return d % step == 0 && std::abs(d / step) <= window;
  }
};

}  // namespace check
