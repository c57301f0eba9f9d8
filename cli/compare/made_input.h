#pragma once
// Inputs that are made instead of read: those on which approximations are usually shown, and those
// on which they fail. Rows are drawn from a seed by check::Random.
//
//   normal(S)   query and key N(0, S^2): flat weights for a small S
//   needle      each query has one key that matches it: keys are 8 times unit vectors, a query is
//               the unit vector of its key plus 0.06 N(0, 1), divided by its length, times 8. The
//               keys of the queries are a permutation
//   clustered   query and key are one view: 6 times the unit vectors of c + 0.6 N(0, 1), where c is
//               one of 8 centres N(0, 1). The default scale is 1
//   equal       query and key are one view, whose rows are all equal: exact attention is the mean
//   huge-key    N(0, 1), but one key, in the middle, is 32 times as large
//
// Values are N(0, 1).
#include <cstdint>
#include <string>

#include "cli/attend/attend_input.h"
#include "cli/process/memory.h"
#include "rapt/tensor.h"

namespace rapt::cli {

enum class MadeKind : uint8_t { normal, needle, clustered, equal, huge_key };

struct MadeInput {
  MadeKind kind = MadeKind::normal;
  double deviation = 1;  // of normal
};

// "normal(0.5)", "normal:0.5", "needle", ... Throws usage errors with a suggestion.
MadeInput parse_made_input(const std::string& text);

struct MadeSizes {
  int64_t heads = 1, q_len = 1024, head_dim = 64;
  uint64_t seed = 0;
};

// Query, key and value [heads, q_len, head_dim] of `dtype`. Throws Error(memory_limit).
Inputs made_inputs(const MadeInput& made, const MadeSizes& sizes, DType dtype,
                   MemoryBudget& budget);

}  // namespace rapt::cli
