#pragma once
// Inputs of a valid call, which a test of bad input spoils.
#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "support/call.h"

namespace laws {

// 2 batches, 4 query heads, 2 key heads, 5 queries, 7 keys.
struct ValidInputs {
  Tensor q = filled(DType::f32, {2, 4, 5, 8}, 1), k = filled(DType::f32, {2, 2, 7, 8}, 1),
         v = filled(DType::f32, {2, 2, 7, 3}, 1), b = filled(DType::f32, {5, 7}, 0);
  TensorView query = q, key = k, value = v;
  AttentionOptions options;
  std::vector<std::byte> scratch = std::vector<std::byte>(1 << 20, std::byte{0x5a});
  std::span<std::byte> workspace = scratch;  // more than enough
  Context context;

  bool workspace_untouched() const {
    return std::ranges::all_of(scratch, [](std::byte x) { return x == std::byte{0x5a}; });
  }
};

}  // namespace laws
