// Causal masks and windows whose bottom-right corner is at the length of each batch: a cache with
// room for more keys than there are.
#include <gtest/gtest.h>

#include <cmath>

#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/window.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::Anchor;
using rapt::Causal;
using rapt::ErrorCode;
using rapt::Window;

// Bit for bit equal to one call per batch over the keys of that batch; keys beyond its length are
// NaN.
TEST(AnchoredLengths, AsOneCallPerBatch) {
  Random random(base_seed());
  constexpr int64_t batch = 5, q_len = 70, k_len = 300, dim = 8;
  Tensor lengths(DType::i64, {batch});
  const int64_t each[batch] = {300, 70, 131, 20, 0};
  std::copy(each, each + batch, lengths.values<int64_t>().begin());
  const Tensor query = random_normal(random, DType::f32, {batch, 2, q_len, dim});
  const auto cache = [&] {
    return mapped(random_normal(random, DType::f32, {batch, 2, k_len, dim}),
                  [&](double x, auto at) { return at[2] < each[at[0]] ? x : NAN; });
  };
  const Tensor key = cache(), value = cache();

  const Causal causal(lengths), alone(Anchor::bottom_right);
  const Window window(40, 3, lengths), window_alone(40, 3, Anchor::bottom_right);
  const rapt::Lengths present(lengths);
  const std::pair<const rapt::Mask*, const rapt::Mask*> pairs[] = {{&causal, &alone},
                                                                   {&window, &window_alone}};
  for (const auto& [anchored, own] : pairs) {
    AttentionOptions options;
    options.masks = {anchored, &present};
    const AttentionResult all = scaled_dot_product_attention(query, key, value, options);
    options.masks = {own};
    for (int64_t b = 0; b < batch; ++b) {
      const auto part = [&](const Tensor& t, int64_t rows) {
        return t.view().slice(0, b, b + 1).slice(2, 0, rows);
      };
      const AttentionResult one = scaled_dot_product_attention(
          part(query, q_len), part(key, each[b]), part(value, each[b]), options);
      EXPECT_TRUE(same_bits(one.output, Tensor::copy_of(part(all.output, q_len)))) << b;
    }
  }
}

TEST(AnchoredLengths, Refusals) {
  const Tensor x = filled(DType::f32, {2, 3, 4}, 1);
  Tensor lengths(DType::i64, {2});
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& words,
                           const rapt::Mask& mask) {
    AttentionOptions options{.masks = {&mask}};
    expect_error(code, words, [&] { scaled_dot_product_attention(x, x, x, options); });
  };
  lengths.values<int64_t>()[0] = 1, lengths.values<int64_t>()[1] = 4;
  refused(ErrorCode::argument, {"mask causal: lengths", "4 keys", "k_len = 3"}, Causal(lengths));
  refused(ErrorCode::argument, {"mask window: lengths", "4 keys"}, Window(1, 1, lengths));
  lengths.values<int64_t>()[1] = -1;
  refused(ErrorCode::argument, {"mask causal: lengths", "-1 keys"}, Causal(lengths));
  lengths.values<int64_t>()[1] = 3;
  Causal top_left(lengths);
  top_left.anchor = Anchor::top_left;
  refused(ErrorCode::argument, {"mask causal: lengths", "expected bottom-right"}, top_left);
  const Tensor three = filled(DType::i64, {3}, 1), real = filled(DType::f32, {2}, 1);
  refused(ErrorCode::shape, {"mask causal: lengths", "[3]"}, Causal(three));
  refused(ErrorCode::dtype, {"mask window: lengths", "i64"}, Window(1, 1, real));
}

}  // namespace
}  // namespace laws
