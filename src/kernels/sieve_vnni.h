#pragma once
// What sieve_vnni.cpp, compiled for AVX512_VNNI, offers to the portable code.
#include "kernels/sieve.h"

namespace rapt::isa_avx512_vnni {

const SieveKernels& sieve() noexcept;

}  // namespace rapt::isa_avx512_vnni
