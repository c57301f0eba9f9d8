// Shows attention on two words: output, weights and lse, with numbers that can be checked by hand.
//
// The scores, query key^T / sqrt(2), are
//   [[0.0588 0.1441]
//    [0.1454 0.3567]]
// and the first row of weights is [e^0.0588, e^0.1441] / (e^0.0588 + e^0.1441). `rapt explain`
// prints every step of the same numbers.
#include <cstdio>
#include <exception>

#include "rapt/rapt.h"

int main() try {
  const float query[] = {0.14f, 0.10f, 0.32f, 0.28f};  // [2, 2] q_len, head_dim
  const float key[] = {0.38f, 0.30f, 0.92f, 0.75f};    // [2, 2] k_len, head_dim
  const float value[] = {0.07f, 0.09f, 0.19f, 0.24f};  // [2, 2] k_len, value_dim

  const rapt::TensorView q(query, {2, 2});
  const rapt::TensorView k(key, {2, 2});
  const rapt::TensorView v(value, {2, 2});

  rapt::AttentionOptions options;
  options.weights = rapt::WeightsRequest{};  // all rows; without this line none are stored
  const rapt::AttentionResult result = rapt::scaled_dot_product_attention(q, k, v, options);

  const auto weights = result.weights.values<float>();  // [2, 2] q_len, k_len
  const auto output = result.output.values<float>();    // [2, 2] q_len, value_dim
  const auto lse = result.statistic.values<float>();    // [2]
  for (size_t i = 0; i < 2; ++i)
    std::printf("word %zu: weights %.4f %.4f   output %.4f %.4f   lse %.4f\n", i, weights[2 * i],
                weights[2 * i + 1], output[2 * i], output[2 * i + 1], lse[i]);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
