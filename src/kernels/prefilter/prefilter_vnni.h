#pragma once
// What prefilter_vnni.cpp, compiled for AVX512_VNNI, offers to the portable code.
#include "kernels/prefilter/prefilter.h"

namespace rapt::isa_avx512_vnni {

const PrefilterKernels& prefilter() noexcept;

}  // namespace rapt::isa_avx512_vnni
