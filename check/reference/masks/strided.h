#pragma once
// d = i + o - j is 0 to stride, or a multiple of stride above it. o is as in causal.h.
#include "check/reference/mask_predicate.h"

namespace check {

struct StridedPredicate : AnchoredBatches {
  static constexpr std::string_view kName = "strided";
  int64_t stride;

  explicit StridedPredicate(const VariantArguments& arguments)
      : AnchoredBatches(arguments), stride(arguments.integers.at("stride")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const int64_t d = -ahead(place, tensors);
    return d >= 0 && (d <= stride || d % stride == 0);
  }
};

}  // namespace check
