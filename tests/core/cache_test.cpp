// Rows written into a key cache: compared with the formula, for any strides. An error writes
// nothing.
#include "rapt/cache.h"

#include <gtest/gtest.h>

#include <cmath>

#include "check/tensors/arrays.h"
#include "rapt/attention.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/lengths.h"
#include "support/expect_error.h"

namespace {

using namespace check;
using laws::expect_error;
using rapt::CacheEnd;
using rapt::ErrorCode;
using rapt::write_to_cache;

Tensor starts_of(const std::vector<int64_t>& starts) {
  Tensor t(DType::i64, {static_cast<int64_t>(starts.size())});
  std::copy(starts.begin(), starts.end(), t.values<int64_t>().begin());
  return t;
}

// The expected cache [batch, heads, capacity, dim], element by element.
Tensor by_formula(const TensorView& cache, const TensorView& update,
                  const std::vector<int64_t>& starts) {
  const int64_t count = update.shape[2], capacity = cache.shape[2];
  return mapped(cache, [&](double old, std::span<const int64_t> at) {
    for (int64_t i = 0; i < count; ++i)
      if ((starts[static_cast<size_t>(at[0])] + i) % capacity == at[2])
        return get(update, Dims{at[0], at[1], i, at[3]});
    return old;
  });
}

TEST(Cache, LinearAndCircularOfAnyTypeAndLayout) {
  Random random(1);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (int layout = 0; layout < kLayouts; ++layout)
      for (const bool circular : {false, true}) {
        const Tensor old = random_normal(random, dtype, {3, 2, 7, 5});
        const Strided update(random_normal(random, dtype, {3, 2, 4, 5}),
                             static_cast<Layout>(layout));
        const std::vector<int64_t> starts =
            circular ? std::vector<int64_t>{5, 0, 7 * 11 + 3} : std::vector<int64_t>{0, 3, 1};
        const Tensor expected = by_formula(old, update, starts);
        // The cache has flash-attention's layout [batch, capacity, heads, dim].
        Tensor memory = Tensor::copy_of(old.view().transposed(1, 2));
        write_to_cache(memory.view().transposed(1, 2), update, starts_of(starts),
                       circular ? CacheEnd::circular : CacheEnd::linear);
        const Tensor got = Tensor::copy_of(memory.view().transposed(1, 2));
        EXPECT_FALSE(difference_of_bits(got, expected)) << layout;
      }
}

TEST(Cache, StartsMayBeAbsentOrPerHead) {
  Random random(2);
  const Tensor old = random_normal(random, DType::f32, {2, 2, 4, 3});
  const Tensor update = random_normal(random, DType::f32, {2, 2, 1, 3});
  Tensor cache = Tensor::copy_of(old);
  write_to_cache(cache, update);
  EXPECT_FALSE(difference_of_bits(cache, by_formula(old, update, {0, 0})));

  Tensor starts(DType::i64, {2, 2});
  const int64_t each[] = {3, 0, 1, 2};
  std::copy(each, each + 4, starts.values<int64_t>().begin());
  cache = Tensor::copy_of(old);
  write_to_cache(cache, update, starts);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t h = 0; h < 2; ++h)
      EXPECT_EQ(get(cache, Dims{b, h, each[2 * b + h], 1}), get(update, Dims{b, h, 0, 1}));
}

TEST(Cache, EmptyUpdatesAndCachesAreFine) {
  Tensor cache = filled(DType::f32, {1, 4, 2}, 1), none(DType::f32, {1, 0, 2});
  write_to_cache(cache, none, starts_of({4}));
  EXPECT_EQ(values_of(cache), std::vector<double>(8, 1));
  write_to_cache(none, Tensor(DType::f32, {1, 0, 2}), {}, CacheEnd::circular);
}

// A prompt followed by three single tokens gives the outputs of one call with all tokens.
TEST(Cache, DecodingStepsEqualOneCall) {
  constexpr int64_t prompt = 5, tokens = 8, capacity = 16;
  Random random(3);
  const Tensor query = random_normal(random, DType::f32, {2, tokens, 4});
  const Tensor key = random_normal(random, DType::f32, {2, tokens, 4});
  const Tensor value = random_normal(random, DType::f32, {2, tokens, 3});
  const rapt::Causal causal;
  const rapt::AttentionResult whole =
      scaled_dot_product_attention(query, key, value, {.masks = {&causal}});

  Tensor keys = filled(DType::f32, {2, capacity, 4}, NAN);
  Tensor values = filled(DType::f32, {2, capacity, 3}, NAN);
  for (int64_t begin = 0; begin < tokens;) {
    const int64_t end = begin == 0 ? prompt : begin + 1;
    const Tensor starts = starts_of({begin, begin}), lengths = starts_of({end, end});
    write_to_cache(keys, key.view().slice(1, begin, end), starts);
    write_to_cache(values, value.view().slice(1, begin, end), starts);
    const rapt::Causal from_begin(rapt::Anchor::top_left, begin);
    const rapt::Lengths filled_slots(lengths);
    const rapt::AttentionResult step = scaled_dot_product_attention(
        query.view().slice(1, begin, end), keys, values, {.masks = {&from_begin, &filled_slots}});
    EXPECT_FALSE(
        difference_of_bits(step.output, Tensor::copy_of(whole.output.view().slice(1, begin, end))));
    begin = end;
  }
}

TEST(Cache, Refusals) {
  Tensor cache = filled(DType::f32, {2, 4, 3}, 1);
  const Tensor update = filled(DType::f32, {2, 2, 3}, 2);
  const auto refused = [&](ErrorCode code, const std::vector<std::string>& words,
                           const TensorView& c, const TensorView& u, const TensorView& s,
                           CacheEnd end = CacheEnd::linear) {
    expect_error(code, words, [&] { write_to_cache(c, u, s, end); });
  };
  const Tensor right = starts_of({0, 2}), late = starts_of({0, 3}), negative = starts_of({0, -1});
  refused(ErrorCode::argument, {"start of 3", "0 to 2"}, cache, update, late);
  refused(ErrorCode::argument, {"start of -1", "or more"}, cache, update, negative,
          CacheEnd::circular);
  refused(ErrorCode::argument, {"cache", "missing"}, {}, update, right);
  refused(ErrorCode::argument, {"read-only"}, std::as_const(cache).view(), update, right);
  refused(ErrorCode::dtype, {"f64", "f32"}, cache, filled(DType::f64, {2, 2, 3}, 2), right);
  refused(ErrorCode::dtype, {"starts", "i64"}, cache, update, filled(DType::f32, {2}, 0));
  refused(ErrorCode::shape, {"[2, 5, 3]", "as many rows"}, cache, filled(DType::f32, {2, 5, 3}, 2),
          right);
  refused(ErrorCode::shape, {"starts [3]"}, cache, update, starts_of({0, 0, 0}));
  float flat[3] = {};
  refused(ErrorCode::shape, {"two dimensions"}, TensorView(flat, {3}), update, right);
  refused(ErrorCode::overlap, {"overlaps"}, cache, cache.view().slice(1, 0, 2), right);
  const TensorView folded(cache.data(), DType::f32, Dims{2, 4, 3}, Dims{0, 3, 1}, false);
  refused(ErrorCode::overlap, {"strides"}, folded, update, right);
  refused(ErrorCode::argument, {"unknown end"}, cache, update, right, static_cast<CacheEnd>(2));
  EXPECT_EQ(values_of(cache), std::vector<double>(24, 1));
}

}  // namespace
