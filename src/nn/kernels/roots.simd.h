#pragma once
// Square roots, which are no word of the instruction sets.
#include "kernels/inlining.h"
#include "kernels/vector/storage.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Correctly rounded. Compilers make one instruction of it (-fno-math-errno).
RAPT_INLINE float root_of(float x) { return __builtin_sqrtf(x); }
RAPT_INLINE double root_of(double x) { return __builtin_sqrt(x); }
template <class V>
RAPT_INLINE V square_root(V x) {
  typename V::Element lanes[V::kLanes];
  store(lanes, x);
  UNROLL_FOR (int64_t i = 0; i < V::kLanes; ++i) lanes[i] = root_of(lanes[i]);
  return V::load(lanes);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
