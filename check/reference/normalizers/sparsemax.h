#pragma once
// sparsemax: entmax with alpha = 2.
#include "check/reference/entmax_family.h"

namespace check {

struct SparsemaxReference : EntmaxFamily<SparsemaxReference> {
  static constexpr std::string_view kName = "sparsemax";
  static double alpha_of() { return 2; }
};

}  // namespace check
