#pragma once
// The interface of dot_bf16.cpp, which is compiled for AVX512_BF16, to the portable code.
#include "kernels/kernel_table.h"

namespace rapt::isa_avx512_bf16 {

const RouteKernels<float>& route() noexcept;

// 24 independent chains of 4 * 16 operations per iteration: the rate no bf16 kernel can beat.
float dot_loop(int64_t iterations) noexcept;

}  // namespace rapt::isa_avx512_bf16
