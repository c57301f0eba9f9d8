#pragma once
// A rotary embedding after validation: which dimensions form pairs, their frequencies, and the
// positions of rows.
#include <cstdint>

#include "attention/call/problem.h"
#include "kernels/kernel_table.h"
#include "rapt/rotary.h"

namespace rapt {

// Checks an embedding and returns the number of dimension pairs that rotate. Throws Error(argument,
// unsupported).
int64_t check_rotary(const Rotary& rotary, int64_t head_dim);

// Two dimensions, the axis whose position they use, and the angle per position.
struct RotaryPair {
  DimPair dims;
  int axis;
  double frequency;
};
RotaryPair pair_of(const Rotary& rotary, int64_t head_dim, int64_t i) noexcept;

// Checks the positions of rows [leading ..., length, head_dim] of `dtype`. Counted positions go up
// to `counted` rows (packed sequences count from their own begins). `name` is for messages. Throws
// Error(argument, shape, dtype, overflow).
void take_positions(const char* name, const Rotary& rotary, const RotaryPositions& positions,
                    int64_t pairs, Shape leading, int64_t length, int64_t counted, DType dtype,
                    RowPositions& taken);

}  // namespace rapt
