// Offsets beyond 32 bits: a few rows far apart in memory that is reserved but never filled, and
// sizes that fit into no machine.
#include <gtest/gtest.h>

#include <limits>

#include "hostile/far_tensors.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/lengths.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"
#include "support/call.h"

namespace laws {
namespace {

// Query, key, value and output.
TEST(HugeStrides, reg_rows_beyond_2p32_bytes) {
  const Reserved memory(kFarRowsBytes);
  if (!memory.available()) GTEST_SKIP() << "no address space";
  Random random(base_seed());
  const TensorView query = far_rows(memory), key = far_rows(memory, 100),
                   value = far_rows(memory, 200);
  const Tensor q = random_rows(random), k = random_rows(random), v = random_rows(random);
  copy_into(query, q);
  copy_into(key, k);
  copy_into(value, v);
  const AttentionResult expected = scaled_dot_product_attention(q, k, v);
  EXPECT_TRUE(same_bits(scaled_dot_product_attention(query, key, value).output, expected.output));

  // An output within the same memory is rejected (address ranges overlap), elsewhere it is not.
  const Reserved elsewhere(kFarRowsBytes);
  if (!elsewhere.available()) GTEST_SKIP() << "no address space";
  rapt::AttentionState state;
  state.output = far_rows(elsewhere);
  std::vector<std::byte> workspace(rapt::plan(query, key, value).workspace_bytes);
  scaled_dot_product_attention(query, key, value, {}, {state}, workspace);
  EXPECT_TRUE(same_bits(state.output, expected.output));
}

// MLX #2894, SageAttention #386: a boolean mask of more than 2^31 elements.
TEST(HugeStrides, reg_mask_over_2p31) {
  constexpr int64_t kLen = HugeMask::kLen;
  // The last three rows of the mask allow two keys each; only these queries are computed.
  const Dims pairs[] = {{kLen - 3, 1},        {kLen - 3, kLen - 1}, {kLen - 2, 0},
                        {kLen - 2, kLen - 2}, {kLen - 1, 7},        {kLen - 1, kLen - 1}};
  const HugeMask huge(pairs);
  if (!huge.available()) GTEST_SKIP() << "no address space";
  Random random(base_seed());
  const Tensor query = filled(DType::f32, {3, 2}, 0);
  const Tensor key = random_normal(random, DType::f32, {kLen, 2});
  const Tensor value = random_normal(random, DType::f32, {kLen, 3});
  const rapt::Boolean mask(huge.last_rows(3));
  const rapt::Mask* masks[] = {&mask};
  AttentionOptions options;
  options.masks = masks;
  const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
  for (int64_t i = 0; i < 3; ++i)
    for (int64_t d = 0; d < 3; ++d) {
      const double first = get(value, Dims{pairs[2 * i][1], d});
      const double second = get(value, Dims{pairs[2 * i + 1][1], d});
      EXPECT_NEAR(get(got.output, Dims{i, d}), (first + second) / 2, 1e-6) << i << " " << d;
    }
}

// PyTorch #162588 and others: garbage when q_len * k_len > 2^32. A window keeps the work small.
TEST(HugeStrides, reg_qk_over_2p32) {
  constexpr int64_t kLen = 70000;  // kLen^2 > 2^32
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {kLen, 2});
  const rapt::Window window(1, 0);
  const rapt::Mask* masks[] = {&window};
  AttentionOptions options;
  options.masks = masks;
  options.scale = 0;
  const AttentionResult got = scaled_dot_product_attention(x, x, x, options);
  for (int64_t i = 1; i < kLen; i += 997)
    EXPECT_NEAR(get(got.output, Dims{i, 1}), (get(x, Dims{i, 1}) + get(x, Dims{i - 1, 1})) / 2,
                1e-6)
        << i;
}

// The weights of some rows in a matrix whose rows lie 2^32 bytes apart.
TEST(HugeStrides, WeightsBeyond2p32Bytes) {
  const Reserved memory(size_t{5} << 32);
  if (!memory.available()) GTEST_SKIP() << "no address space";
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {4, 6});
  AttentionOptions options;
  options.weights.emplace();
  const AttentionResult expected = scaled_dot_product_attention(x, x, x, options);
  const Dims dims{4, 4}, strides{int64_t{1} << 30, 1};
  const TensorView weights(memory.data(), DType::f32, dims, strides, false);
  Tensor output(DType::f32, {4, 6});
  rapt::AttentionState state;
  state.output = output;
  std::vector<std::byte> workspace(rapt::plan(x, x, x, options).workspace_bytes);
  scaled_dot_product_attention(x, x, x, options, {state, weights}, workspace);
  EXPECT_TRUE(same_bits(weights, expected.weights));
}

// The error code of every public function, or -1 if one accepts the call or the codes differ.
int code_of_all(const TensorView& q, const TensorView& k, const TensorView& v,
                const AttentionOptions& options = {}) {
  const auto code = [](const auto& verb) {
    try {
      verb();
    } catch (const rapt::Error& error) {
      return static_cast<int>(error.code());
    }
    return -1;
  };
  const int of_plan = code([&] { rapt::plan(q, k, v, options); });
  const int of_bytes = code([&] { (void)rapt::workspace_bytes(q, k, v, options); });
  const int of_call = code([&] { scaled_dot_product_attention(q, k, v, options); });
  return of_plan == of_call && of_plan == of_bytes ? of_plan : -1;
}
constexpr int kOverflow = static_cast<int>(rapt::ErrorCode::overflow);
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// One number, repeated: strides of 0, so that no offset overflows.
float one_number = 0;
TensorView repeated(const Dims& dims) {
  TensorView v(&one_number, {1});
  v.rank = static_cast<int>(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    v.shape[i] = dims[i];
    v.strides[i] = 0;
  }
  return v;
}

// Views of 2^62 elements without memory must be rejected: neither computed nor wrapped around.
TEST(HugeStrides, AbsurdShapesOverflow) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const TensorView small = repeated({3, 4}), one_head = repeated({1, 1, 3, 4});
  EXPECT_EQ(code_of_all(repeated({kHuge, 4}), small, small), kOverflow);
  EXPECT_EQ(code_of_all(repeated({kHuge, kHuge, 2, 4}), one_head, one_head), kOverflow);
  EXPECT_EQ(code_of_all(small, small, repeated({3, kHuge})), kOverflow);
  EXPECT_EQ(code_of_all(repeated({kMost, 4}), small, small), kOverflow);
  // Rows of no values are counted, too.
  constexpr int64_t kMany = int64_t{1} << 40;
  EXPECT_EQ(code_of_all(repeated({1, kMany, 1}), repeated({kMany, 1, 1}), repeated({1, 1, 0})),
            kOverflow);
  AttentionOptions options;
  options.received = true;
  EXPECT_EQ(code_of_all(repeated({kMany, 1, 1}), repeated({1, kMany, 1}), repeated({1, kMany, 1}),
                        options),
            kOverflow);
  // Offsets that overflow although the shape is small.
  TensorView far = small;
  far.strides[0] = kMost / 2;
  EXPECT_EQ(code_of_all(far, small, small), kOverflow);
}

// Repeated rows (stride 0), more than fit in any memory when packed; a mask allows a few. Packed,
// 2^57 keys and values would take a multiple of 2^64 bytes.
TEST(HugeStrides, MoreKeysThanCanBePacked) {
  const rapt::Prefix first_three(3);
  AttentionOptions options;
  options.masks = {&first_three};
  const TensorView query = repeated({4000, 1});
  const auto attend_to = [&](int64_t keys) {
    return scaled_dot_product_attention(query, repeated({keys, 1}), repeated({keys, 1}), options);
  };
  const AttentionResult expected = attend_to(200);
  for (const int power : {56, 57, 58})
    EXPECT_TRUE(same_results(attend_to(int64_t{1} << power), expected)) << power;
}

// Rows of 2^57 elements: as many as one may name, but a tile of them has no size in 64 bits.
TEST(HugeStrides, AbsurdDimensionsOverflow) {
  constexpr int64_t kWide = int64_t{1} << 57;
  for (const int64_t q_len : {0, 1, 3})
    for (const int64_t k_len : {0, 1, 3}) {
      SCOPED_TRACE(std::to_string(q_len) + " queries, " + std::to_string(k_len) + " keys");
      const TensorView query = repeated({q_len, 4}), key = repeated({k_len, 4});
      const TensorView wide_query = repeated({q_len, kWide}), wide_key = repeated({k_len, kWide});
      EXPECT_EQ(code_of_all(query, key, key), -1);
      EXPECT_EQ(code_of_all(wide_query, wide_key, key), kOverflow);
      EXPECT_EQ(code_of_all(query, key, wide_key), kOverflow);
      EXPECT_EQ(code_of_all(wide_query, wide_key, wide_key), kOverflow);
    }
}

// Masks' tensors whose last element has no 64-bit address. Their numbers must not be looked at.
TEST(HugeStrides, MasksBeyondAddressesOverflow) {
  const Tensor x = filled(DType::f32, {2, 3, 4}, 1);
  const Tensor some_pairs = filled(DType::boolean, {2, 3, 3}, 1),
               some_lengths = filled(DType::i64, {2}, 3);
  for (const int64_t stride : {kMost, kMost / 2 + 1, -kMost, std::numeric_limits<int64_t>::min()}) {
    SCOPED_TRACE(stride);
    AttentionOptions options;
    for (int dim = 1; dim < 3; ++dim) {
      rapt::Boolean boolean(some_pairs);
      boolean.allowed.strides[dim] = stride;
      options.masks = {&boolean};
      EXPECT_EQ(code_of_all(x, x, x, options), kOverflow);
    }
    rapt::Lengths lengths(some_lengths);
    lengths.lengths.strides[0] = stride;
    options.masks = {&lengths};
    EXPECT_EQ(code_of_all(x, x, x, options), kOverflow);
  }
}

}  // namespace
}  // namespace laws
