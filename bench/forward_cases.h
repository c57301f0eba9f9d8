#pragma once
// The problems of the speed table, and the goal of each on known machines.
#include <vector>

#include "speed.h"

namespace bench {

// The cases for the instruction set in use. AVX2, if forced by RAPT_ISA, has its own cases.
std::vector<SpeedCase> forward_cases();

}  // namespace bench
