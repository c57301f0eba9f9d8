#pragma once
// The share of allowed pairs in each cell of a grid over the pairs (query, key), without a matrix
// of pairs.
#include <cstdint>
#include <vector>

#include "rapt/mask/mask.h"

namespace rapt::cli {

// Cells of `queries` x `keys` pairs over a sequence; the last ones may be smaller.
struct Grid {
  int64_t queries = 1, keys = 1;
};

struct Shares {
  Grid cell;
  int64_t rows = 0, columns = 0;
  std::vector<float> values;  // [rows, columns], 0 to 1
};

// Calls the mask tile by tile, as a call does. q_len and k_len of `head` must be at least 1.
Shares allowed_shares(const Mask& mask, const Head& head, Grid cell);

}  // namespace rapt::cli
