#pragma once
// Rows of bf16 as runs of 32 (simd/plain16_runs.h), for the dot route and for tile registers.
#include <cstdint>

#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

RAPT_INLINE uint32_t first_of_32(int64_t n) {
  return n >= 32 ? ~uint32_t{0} : n <= 0 ? 0 : (uint32_t{1} << n) - 1;
}

// Loads the elements (row, 0 .. n) as a dense, zero-padded run.
RAPT_INLINE Run run_of_row(const uint16_t* row, int64_t stride, int64_t n) {
  if (stride == 1) return load_run_where(first_of_32(n), row);
  uint16_t dense[32] = {};
  for (int64_t d = 0; d < n && d < 32; ++d) dense[d] = row[d * stride];
  return load_run(dense);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
