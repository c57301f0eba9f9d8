#pragma once
// The vocabulary of simd/amx.h in plain C++. Its words give the same bits.
#include "kernels/simd/plain16_runs.h"
#include "kernels/simd/tiles_emulated.h"
