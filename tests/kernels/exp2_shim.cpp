// The exponential of one instruction set as a plain function; compiled once per set.
#include RAPT_ISA_HEADER

namespace rapt::RAPT_ISA {

void exp2_all(const float* x, float* y, int64_t count) {
  for (int64_t i = 0; i < count; i += F::kLanes) store(y + i, exp2(F::load(x + i)));
}

}  // namespace rapt::RAPT_ISA
