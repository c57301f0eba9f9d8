#pragma once
// Relative positions after validation (rapt/relative.h): their tensors as operands, and which
// distance each table row begins at.
#include <cstdint>

#include "attention/call/problem.h"
#include "rapt/relative.h"

namespace rapt {

// Strides of a view of [..., own dimensions], 1 or 2 of them, that broadcasts to the leading
// dimensions of the problem. False: it does not.
bool take_relative_operand(const TensorView& view, int own_rank, const Problem& problem,
                           Operand& operand);

// The least distance of a row, on a log scale; row 0 has all that are less, too.
int64_t first_distance(const RelativePositions& relative, int64_t distances, int64_t row);

}  // namespace rapt
