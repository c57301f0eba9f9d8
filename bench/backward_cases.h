#pragma once
// The problems of the backward pass's speed table, and the goal of each on known machines.
#include <vector>

#include "speed.h"

namespace bench {

std::vector<SpeedCase> backward_cases();

}  // namespace bench
