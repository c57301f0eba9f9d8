// The 2^x of units with 16-bit weights (simd/short_exp2.h), as a plain function; compiled once per
// set that has one.
#define RAPT_WEIGHTS_OF_16_BITS
#include RAPT_ISA_HEADER

namespace rapt::RAPT_ISA {

void short_exp2(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += F::kLanes) store(y + i, exp2(F::load(x + i)));
}
void short_normal_exp2(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += F::kLanes) store(y + i, normal_exp2(F::load(x + i)));
}

}  // namespace rapt::RAPT_ISA
