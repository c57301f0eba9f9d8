#pragma once
// softmax_plus_one: e^score_j / (1 + sum_j e^score_j).
#include "check/reference/softmax_family.h"

namespace check {

struct SoftmaxPlusOneReference : SoftmaxFamily<SoftmaxPlusOneReference> {
  static constexpr std::string_view kName = "softmax_plus_one";
  static double null_score() { return 0; }
};

}  // namespace check
