#pragma once
// softmax: e^score_j / sum_j e^score_j.
#include "check/reference/softmax_family.h"

namespace check {

struct SoftmaxReference : SoftmaxFamily<SoftmaxReference> {
  static constexpr std::string_view kName = "softmax";
};

}  // namespace check
