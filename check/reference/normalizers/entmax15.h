#pragma once
// entmax15: entmax with alpha = 1.5.
#include "check/reference/entmax_family.h"

namespace check {

struct Entmax15Reference : EntmaxFamily<Entmax15Reference> {
  static constexpr std::string_view kName = "entmax15";
  static double alpha_of() { return 1.5; }
};

}  // namespace check
