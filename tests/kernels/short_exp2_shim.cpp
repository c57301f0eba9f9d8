// The 2^x of units with 16-bit weights (simd/polynomials.h), as a plain function.
#define RAPT_ISA isa_avx512_bf16_test
#define RAPT_WEIGHTS_OF_16_BITS
#include "kernels/simd/avx512.h"

namespace rapt::RAPT_ISA {

void short_exp2(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += F::kLanes) store(y + i, exp2(F::load(x + i)));
}
void short_normal_exp2(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += F::kLanes) store(y + i, normal_exp2(F::load(x + i)));
}

}  // namespace rapt::RAPT_ISA
