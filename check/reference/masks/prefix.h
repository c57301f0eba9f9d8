#pragma once
// j < length, one for all or one per batch.
#include "check/reference/mask_predicate.h"

namespace check {

struct PrefixPredicate : BatchLengths {
  static constexpr std::string_view kName = "prefix";
  int64_t length;

  explicit PrefixPredicate(const VariantArguments& arguments)
      : length(arguments.integers.at("length")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    return place.j < (tensors[0].defined() ? of_batch(tensors[0], place) : length);
  }
};

}  // namespace check
