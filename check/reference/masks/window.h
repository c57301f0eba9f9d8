#pragma once
// i + o - left <= j <= i + o + right; -1 is no bound. o is as in causal.h.
#include "check/reference/mask_predicate.h"

namespace check {

struct WindowPredicate : AnchoredBatches {
  static constexpr std::string_view kName = "window";
  int64_t left, right;

  explicit WindowPredicate(const VariantArguments& arguments)
      : AnchoredBatches(arguments),
        left(arguments.integers.at("left")),
        right(arguments.integers.at("right")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const int64_t d = ahead(place, tensors);
    return (left < 0 || d >= -left) && (right < 0 || d <= right);
  }
};

}  // namespace check
