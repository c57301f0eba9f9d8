#pragma once
// The place of a pair (query, key), for masks and scores.
#include <cstdint>
#include <span>

namespace check {

// The head, and positions within the sequence (also of packed sequences).
struct PairPlace {
  std::span<const int64_t> index;    // of the head, in the leading dimensions of the output
  std::span<const int64_t> leading;  // those dimensions
  int64_t i = 0, j = 0, q_len = 0, k_len = 0;
};

}  // namespace check
