#pragma once
// The problems of the speed table, and what each must reach on the machines we know.
#include <vector>

#include "speed.h"

namespace bench {

// The cases for the instruction set in use. AVX2 that was forced by RAPT_ISA has cases of its own.
std::vector<SpeedCase> forward_cases();

}  // namespace bench
