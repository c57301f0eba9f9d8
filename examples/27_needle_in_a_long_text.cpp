// Finds a needle in 65,536 tokens by LSH attention (Reformer): the last token is similar to one
// earlier token, and its output is that token's value. Query and key are one tensor. Only a small
// part of the pairs is looked at.
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <vector>

#include "rapt/rapt.h"

namespace {

constexpr int64_t kTokens = 65536, kDim = 64, kNeedle = 12345;
constexpr float kLength = 320;  // of each row: scores reach 320 / 8

// Rows of random directions; the last one is the needle's with some noise.
std::vector<float> make_rows() {
  std::mt19937 generator(1);
  std::vector<float> rows(kTokens * kDim);
  const auto normal = [&] {  // the same with every standard library: a sum of uniform numbers
    float sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<float>(generator() >> 8) * 0x1p-24f;
    return sum;
  };
  for (int64_t i = 0; i < kTokens; ++i) {
    float* const row = &rows[static_cast<size_t>(i * kDim)];
    float square = 0;
    for (int64_t d = 0; d < kDim; ++d) {
      const float needle = rows[static_cast<size_t>(kNeedle * kDim + d)] / kLength * 8;
      row[d] = i == kTokens - 1 ? needle + 0.2f * normal() : normal();
      square += row[d] * row[d];
    }
    for (int64_t d = 0; d < kDim; ++d) row[d] *= kLength / std::sqrt(square);
  }
  return rows;
}

void find_needle() {
  const std::vector<float> rows = make_rows();
  std::vector<float> values(kTokens);  // the value of a token is its position
  for (int64_t i = 0; i < kTokens; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  const rapt::TensorView query(rows.data(), {kTokens, kDim}), value(values.data(), {kTokens, 1});
  const rapt::Causal causal;
  rapt::Lsh lsh(8);  // rounds
  const rapt::AttentionOptions options{.masks = {&causal}, .method = &lsh};

  const rapt::Plan plan = rapt::plan(query, query, value, options);
  std::printf(
      "looks at %.1f %% of the pairs at most\n",
      100 * static_cast<double>(plan.method_pairs) / static_cast<double>(plan.allowed_scores));
  const auto begin = std::chrono::steady_clock::now();
  const rapt::AttentionResult result =
      rapt::scaled_dot_product_attention(query, query, value, options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("the last token attends to token %.0f; the needle is token %lld\n",
              result.output.values<float>().back(), static_cast<long long>(kNeedle));
  std::printf("%.2f s\n", seconds.count());
}

}  // namespace

int main() {
  try {
    find_needle();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
