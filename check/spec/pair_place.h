#pragma once
// Where a pair (query, key) stands, for masks and scores.
#include <cstdint>
#include <span>

namespace check {

// Of which head, and positions that count in a packed sequence's own lengths.
struct PairPlace {
  std::span<const int64_t> index;    // of the head, in the leading dimensions of the output
  std::span<const int64_t> leading;  // those dimensions
  int64_t i = 0, j = 0, q_len = 0, k_len = 0;
};

}  // namespace check
