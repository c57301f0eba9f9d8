#pragma once
// The results of a score function for dot products of 0: its own terms alone.
#include <vector>

#include "support/call.h"

namespace laws {

// [heads, q_len, k_len]
inline std::vector<double> scores_of(int64_t heads, int64_t q_len, int64_t k_len,
                                     const rapt::ScoreRef& score, DType dtype = DType::f64) {
  const Tensor query = filled(dtype, {heads, q_len, 1}, 0),
               rows = filled(dtype, {heads, k_len, 1}, 0);
  AttentionOptions options;
  options.scores = {score};
  options.weights.emplace();
  options.weights->stage = rapt::WeightsStage::scores;
  return values_of(scaled_dot_product_attention(query, rows, rows, options).weights);
}

}  // namespace laws
