#pragma once
// Inputs of calls of linear attention.
#include "check/tensors/arrays.h"
#include "support/call.h"

namespace laws {

inline constexpr int64_t kTokens = 1300;  // more than 16 chunks of 64, the block that threads share

// Query, key and value of so many tokens, with head_dim 8 and value_dim 5.
struct LinearInputs {
  rapt::Tensor query, key, value;

  explicit LinearInputs(int64_t heads) {
    check::Random random(31);
    query = check::random_normal(random, rapt::DType::f32, {heads, kTokens, 8});
    key = check::random_normal(random, rapt::DType::f32, {heads, kTokens, 8});
    value = check::random_normal(random, rapt::DType::f32, {heads, kTokens, 5});
    // Keys grow, so that the power of a state of favor rises.
    for (int64_t i = 0; i < key.count(); ++i)
      key.values<float>()[static_cast<size_t>(i)] *= static_cast<float>(1 + i / 8 % kTokens / 400);
  }
};

}  // namespace laws
