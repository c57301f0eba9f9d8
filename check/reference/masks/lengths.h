#pragma once
// j < lengths[batch].
#include "check/reference/mask_predicate.h"

namespace check {

struct LengthsPredicate : BatchLengths {
  static constexpr std::string_view kName = "lengths";

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    return place.j < of_batch(tensors[0], place);
  }
};

}  // namespace check
