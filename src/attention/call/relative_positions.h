#pragma once
// Relative positions after validation (rapt/relative.h): their tensors as operands, and the
// distance at distance each table row begins at.
#include <cstdint>

#include "attention/call/problem.h"
#include "rapt/relative.h"

namespace rapt {

// Sets `operand` to a view with `own_rank` (1 or 2) dimensions behind leading dimensions that
// broadcast to those of the problem. Returns false if they do not.
bool take_relative_operand(const TensorView& view, int own_rank, const Problem& problem,
                           Operand& operand);

// The smallest distance that uses a table row, on a log scale. Row 0 also serves all smaller ones.
int64_t first_distance(const RelativePositions& relative, int64_t distances, int64_t row);

}  // namespace rapt
