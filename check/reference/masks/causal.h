#pragma once
// j <= i + o + offset. o aligns query 0 as the anchor or the length of the batch says.
#include "check/reference/mask_predicate.h"

namespace check {

struct CausalPredicate : AnchoredBatches {
  static constexpr std::string_view kName = "causal";
  int64_t offset;

  explicit CausalPredicate(const VariantArguments& arguments)
      : AnchoredBatches(arguments), offset(arguments.integers.at("offset")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    return ahead(place, tensors) <= offset;
  }
};

}  // namespace check
