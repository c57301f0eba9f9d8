#pragma once
// j <= i + o, and j lies in the same block of stride positions or in the last `summary` of its own.
// o is as in causal.h.
#include "check/reference/mask_predicate.h"

namespace check {

struct FixedPredicate : AnchoredBatches {
  static constexpr std::string_view kName = "fixed";
  int64_t stride, summary;

  explicit FixedPredicate(const VariantArguments& arguments)
      : AnchoredBatches(arguments),
        stride(arguments.integers.at("stride")),
        summary(arguments.integers.at("summary")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const int64_t p = place.j - ahead(place, tensors);
    if (place.j > p) return false;
    return place.j / stride == p / stride || place.j % stride >= stride - summary;
  }
};

}  // namespace check
