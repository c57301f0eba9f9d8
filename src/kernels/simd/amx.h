#pragma once
// The vocabulary of machines with tile registers: AVX-512, runs of bf16, AMX.
#include "kernels/simd/avx512_runs.h"
#include "kernels/simd/tiles.h"
