#pragma once
// The interface of prefilter_vnni.cpp, which is compiled for AVX512_VNNI, to the portable code.
#include "kernels/prefilter/prefilter.h"

namespace rapt::isa_avx512_vnni {

const PrefilterKernels& prefilter() noexcept;

}  // namespace rapt::isa_avx512_vnni
