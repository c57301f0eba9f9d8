#pragma once
// Random numbers by counters, for initial values: no state, no order, the same bits on every
// machine.
//
// Number i of a stream is made of word i of Philox4x32-10 (Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3", section 4.3), the generator of dropout (rapt/dropout.h):
//
//   key      (seed mod 2^32, seed / 2^32)
//   counter  (b mod 2^32, b / 2^32, stream mod 2^32, stream / 2^32),  b = i / 2
//   word     the first two of the four numbers for even i, the last two for odd i, the lower half
//            first; k = word / 2^12
//   u        (2k + 1) / 2^53, a multiple of 2^-53 between 0 and 1, and exact
//
// The arithmetic is + - * / and the square root, which IEEE 754 rounds correctly, without
// contraction to fma (cmake/rapt_warnings.cmake).
#include <cstdint>

namespace rapt::nn {

// Numbers begin .. end - 1 of a stream, to `to`: 2u - 1, exact, between -1 and 1.
void draw_symmetric(uint64_t seed, uint64_t stream, int64_t begin, int64_t end,
                    double* to) noexcept;
// The u-quantile of the normal distribution of mean 0 and standard deviation 1, within 1e-15 of
// itself, at most 8.21 (Wichura 1988, "Algorithm AS 241", PPND16).
void draw_normal(uint64_t seed, uint64_t stream, int64_t begin, int64_t end, double* to) noexcept;

}  // namespace rapt::nn
