#pragma once
// A rotary embedding after validation: which dimensions turn together, how fast, by what positions.
#include <cstdint>

#include "attention/call/problem.h"
#include "kernels/kernel_table.h"
#include "rapt/rotary.h"

namespace rapt {

// How many pairs of dimensions of a row turn. Throws Error(argument, unsupported).
int64_t check_rotary(const Rotary& rotary, int64_t head_dim);

// Two dimensions, on which axis their position counts, and the angle of position 1.
struct RotaryPair {
  DimPair dims;
  int axis;
  double frequency;
};
RotaryPair pair_of(const Rotary& rotary, int64_t head_dim, int64_t i) noexcept;

// The positions of rows [leading ..., length, head_dim] of `dtype`, of which the first `counted`
// are at most counted through (packed sequences count from their own begins); `name` is for
// messages. Throws Error(argument, shape, dtype, overflow).
void take_positions(const char* name, const Rotary& rotary, const RotaryPositions& positions,
                    int64_t pairs, Shape leading, int64_t length, int64_t counted, DType dtype,
                    RowPositions& taken);

}  // namespace rapt
