#pragma once
// The problems of the backward pass's speed table, and what each must reach on the machines we
// know.
#include <vector>

#include "speed.h"

namespace bench {

std::vector<SpeedCase> backward_cases();

}  // namespace bench
