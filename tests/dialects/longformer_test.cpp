// Longformer by the two calls of docs/compositions.md, compared with Hugging Face's layer
// (recorded_longformer.h, written by record_longformer.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "rapt/attention.h"
#include "rapt/mask/global.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"
#include "recorded_longformer.h"

namespace {

using namespace rapt;
namespace longformer = recorded_longformer;

TensorView recorded_rows(const float* numbers) {
  return {numbers, {longformer::kHeads, longformer::kLength, longformer::kDim}};
}

Tensor output_of(const TensorView& query, const TensorView& key, const TensorView& value,
                 MaskList masks) {
  AttentionOptions options;
  options.masks = masks;
  return scaled_dot_product_attention(query, key, value, options).output;
}

// The rows of global tokens: their own projections, and no mask.
Tensor global_rows(std::span<const int64_t> tokens) {
  const auto count = static_cast<int64_t>(tokens.size());
  Tensor query(DType::f32, {longformer::kHeads, count, longformer::kDim});
  float* to = query.values<float>().data();
  for (int64_t head = 0; head < longformer::kHeads; ++head)
    for (const int64_t token : tokens)
      to = std::copy_n(
          longformer::query_global + (head * longformer::kLength + token) * longformer::kDim,
          longformer::kDim, to);
  return output_of(query, recorded_rows(longformer::key_global),
                   recorded_rows(longformer::value_global), {});
}

// Compares rows of all heads with those of `tokens`. Both sides round in f32: 1e-5 is 20 units in
// the last place of values from 4 to 8, the largest here.
void expect_rows(const Tensor& got, const float* wanted, std::span<const int64_t> tokens) {
  for (int64_t head = 0; head < longformer::kHeads; ++head)
    for (size_t row = 0; row < tokens.size(); ++row)
      for (int64_t d = 0; d < longformer::kDim; ++d) {
        const auto at = (head * got.dim(1) + static_cast<int64_t>(row)) * longformer::kDim + d;
        EXPECT_NEAR(got.values<float>()[static_cast<size_t>(at)],
                    wanted[(head * longformer::kLength + tokens[row]) * longformer::kDim + d], 1e-5)
            << "token " << tokens[row] << ", head " << head;
      }
}

TEST(Longformer, FirstTokensAreGlobal) {
  constexpr auto kGlobal = static_cast<int64_t>(std::size(longformer::first));
  const Window window(longformer::kReach, longformer::kReach, Anchor::bottom_right);
  const Prefix global_keys(kGlobal);
  const Or either{&window, &global_keys};
  const Tensor local =
      output_of(recorded_rows(longformer::query).slice(1, kGlobal, longformer::kLength),
                recorded_rows(longformer::key), recorded_rows(longformer::value), {&either});
  int64_t others[longformer::kLength - kGlobal];
  for (int64_t i = 0; i < longformer::kLength - kGlobal; ++i) others[i] = kGlobal + i;
  expect_rows(local, longformer::output_first, others);
  expect_rows(global_rows(longformer::first), longformer::output_first, longformer::first);
}

TEST(Longformer, ScatteredTokensAreGlobal) {
  const Window window(longformer::kReach, longformer::kReach);
  Global global;
  global.positions = TensorView(longformer::scattered, {std::ssize(longformer::scattered)});
  const Or either{&window, &global};
  Tensor all = output_of(recorded_rows(longformer::query), recorded_rows(longformer::key),
                         recorded_rows(longformer::value), {&either});
  const Tensor of_global = global_rows(longformer::scattered);
  const auto count = std::ssize(longformer::scattered);
  for (int64_t head = 0; head < longformer::kHeads; ++head)
    for (int64_t row = 0; row < count; ++row)
      std::copy_n(of_global.values<float>().data() + (head * count + row) * longformer::kDim,
                  longformer::kDim,
                  all.values<float>().data() +
                      (head * longformer::kLength + longformer::scattered[row]) * longformer::kDim);
  int64_t tokens[longformer::kLength];
  for (int64_t i = 0; i < longformer::kLength; ++i) tokens[i] = i;
  expect_rows(all, longformer::output_scattered, tokens);
}

}  // namespace
