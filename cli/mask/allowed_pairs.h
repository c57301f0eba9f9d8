#pragma once
// Counts the pairs (query, key) of one head that may attend, without a matrix of pairs unless it is
// requested.
#include <cstdint>
#include <span>
#include <vector>

#include "rapt/mask/mask.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// The number of pairs of each cell that all masks allow and no bias of -inf masks out. Cell (a, b)
// of [rows, columns] has the queries [a q_len / rows, (a + 1) q_len / rows), and the keys in the
// same way, as in a map of weights (rapt::MapRequest). rows: 1 to q_len, columns: 1 to k_len; both
// are 0 if there is no pair. `bias` may be absent.
std::vector<int64_t> count_allowed(std::span<const Mask* const> masks, const TensorView& bias,
                                   const Head& head, int64_t rows, int64_t columns);

// The same for single pairs: uint8 [q_len, k_len], 1 = may attend.
std::vector<uint8_t> allowed_pairs(std::span<const Mask* const> masks, const TensorView& bias,
                                   const Head& head);

}  // namespace rapt::cli
