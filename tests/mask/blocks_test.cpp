// Layouts of blocks: lists by hand, layouts of matrices, of FlexAttention and of BigBird, and what
// is rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "rapt/block_layout.h"
#include "rapt/mask/and.h"
#include "rapt/mask/bigbird.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/or.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::BlockLayout;
using rapt::Blocks;
using rapt::ErrorCode;

template <class T>
Tensor integers_of(const Dims& dims, const std::vector<T>& values) {
  Tensor tensor(rapt::dtype_of<T>(), dims);
  std::copy(values.begin(), values.end(), tensor.values<T>().begin());
  return tensor;
}

std::vector<int64_t> elements_of(const Tensor& tensor) {
  const auto values = tensor.values<int64_t>();
  return {values.begin(), values.end()};
}

// The pairs of a mask in a call of leading dimensions, as a boolean matrix.
Tensor matrix_of_mask(const rapt::Mask& mask, const Dims& leading, int64_t q_len, int64_t k_len) {
  mask.check(leading, q_len, k_len);
  Dims dims = leading;
  dims.insert(dims.end(), {q_len, k_len});
  Tensor pairs(DType::boolean, dims);
  bool* to = pairs.values<bool>().data();
  for_each_index(leading, [&](auto index) {
    rapt::BoundMask bound[16];
    bound[0] = {&mask, nullptr, {}, q_len, k_len};
    mask.bind({index.data(), static_cast<int>(index.size()), q_len, k_len}, bound);
    for (int64_t i = 0; i < q_len; ++i) {
      std::vector<uint64_t> bits(static_cast<size_t>(k_len), 1);
      mask.exclude(bound[0], {i, 1, 1}, {0, 1, k_len}, bits.data());
      for (const uint64_t bit : bits) *to++ = bit & 1;
    }
  });
  return pairs;
}

AttentionResult attended_by_layout(const rapt::Mask& mask, int64_t q_len, int64_t k_len) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 3, q_len, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 3, k_len, 8});
  AttentionOptions options;
  options.masks = {&mask};
  return scaled_dot_product_attention(query, key, key, options);
}

TEST(Blocks, ListsByHand) {
  // Head 0 has lists of rows 0 and 1; head 1 shares the list of row 0 and has none for row 1.
  const Tensor starts = integers_of<int64_t>({1, 2, 3}, {0, 2, 3, 0, 2, 2});
  const Tensor indices = integers_of<int64_t>({3}, {0, 2, 1});
  const Blocks mask(3, 2, starts, indices);
  const Tensor pairs = matrix_of_mask(mask, {1, 2}, 5, 6);
  std::string text;
  for (const bool pair : pairs.values<bool>()) text += pair ? 'x' : '.';
  EXPECT_EQ(text,
            "xx..xx"
            "xx..xx"
            "xx..xx"
            "..xx.."
            "..xx.."
            "xx..xx"
            "xx..xx"
            "xx..xx"
            "......"
            "......");
}

// A layout and the matrix that decides the pairs of its partial blocks have the bits of the matrix.
TEST(BlockLayout, OfAMatrix) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(30) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 200), k_len = random.between(1, 300);
    const int64_t query_block = random.between(1, 70), key_block = random.between(1, 70);
    Tensor allowed(DType::boolean, {2, random.pick({1, 3}), q_len, k_len});
    for_each_index(allowed.dims(), [&](auto at) {
      const int64_t kind = (at[2] / query_block * 7 + at[3] / key_block * 3 + at[0]) % 3;
      set(allowed, at, kind == 0 || (kind == 1 && random.chance(0.5)));
    });
    const Strided strided(allowed, static_cast<Layout>(random.between(0, kLayouts - 1)));
    const BlockLayout layout = rapt::layout_of_pairs(strided, query_block, key_block);
    const Blocks full = layout.full(), partial = layout.partial();
    const rapt::Boolean pairs(allowed);
    const rapt::And decided{&partial, &pairs};
    const rapt::Or mask{&full, &decided};
    EXPECT_TRUE(same_results(attended_by_layout(mask, q_len, k_len),
                             attended_by_layout(pairs, q_len, k_len)));
    const rapt::And only_full{&full, &pairs};
    EXPECT_TRUE(same_results(attended_by_layout(only_full, q_len, k_len),
                             attended_by_layout(full, q_len, k_len)));
  }
}

TEST(BlockLayout, KindsOfBlocks) {
  // [[all, none], [one pair, all of a short block]]
  const Tensor allowed = [] {
    Tensor t = filled(DType::boolean, {3, 5}, 0);
    for (const int64_t i : {0, 1})
      for (const int64_t j : {0, 1, 2}) set(t, Dims{i, j}, 1);
    set(t, Dims{2, 1}, 1), set(t, Dims{2, 3}, 1), set(t, Dims{2, 4}, 1);
    return t;
  }();
  const BlockLayout layout = rapt::layout_of_pairs(allowed, 2, 3);
  EXPECT_EQ(elements_of(layout.starts), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(elements_of(layout.indices), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(elements_of(layout.partial_starts), (std::vector<int64_t>{0, 0, 1}));
  EXPECT_EQ(elements_of(layout.partial_indices), (std::vector<int64_t>{0}));
}

// Any byte but 0 is true, as for Boolean: a byte of 2 is one pair, not two.
TEST(BlockLayout, BytesOtherThanOne) {
  const unsigned char bytes[] = {2, 0, 255, 1};
  Tensor allowed(DType::boolean, {1, 4});
  std::memcpy(allowed.values<bool>().data(), bytes, sizeof bytes);
  const BlockLayout layout = rapt::layout_of_pairs(allowed, 1, 2);
  EXPECT_EQ(elements_of(layout.indices), (std::vector<int64_t>{1}));
  EXPECT_EQ(elements_of(layout.partial_indices), (std::vector<int64_t>{0}));
}

// A matrix for each head, the same for all batches, needs a leading 1: without it the lists are
// those of batches, and do not fit a call of 2 batches of 3 heads.
TEST(BlockLayout, OfHeads) {
  Random random(base_seed());
  Tensor allowed(DType::boolean, {1, 3, 40, 50});
  for_each_index(allowed.dims(), [&](auto at) { set(allowed, at, random.chance(0.5)); });
  const rapt::Boolean pairs(allowed);
  const BlockLayout layout = rapt::layout_of_pairs(allowed, 8, 2);
  const Blocks full = layout.full(), partial = layout.partial();
  const rapt::And decided{&partial, &pairs};
  const rapt::Or mask{&full, &decided};
  EXPECT_TRUE(same_results(attended_by_layout(mask, 40, 50), attended_by_layout(pairs, 40, 50)));
  const rapt::TensorView of_heads(allowed.values<bool>().data(), {3, 40, 50});
  const BlockLayout of_batches = rapt::layout_of_pairs(of_heads, 8, 2);
  expect_error(ErrorCode::shape, {"first leading dimensions"}, [&] {
    of_batches.full().check(Dims{2, 3}, 40, 50);
  });
}

// create_block_mask(causal, B=1, H=1, Q_LEN=8, KV_LEN=8, BLOCK_SIZE=2), as PyTorch 2.5 documents
// it: diagonal blocks are partial, blocks below are full, and behind them lie others.
TEST(BlockLayout, OfABlockMask) {
  const Tensor kv_num_blocks = integers_of<int32_t>({1, 1, 4}, {1, 1, 1, 1});
  const Tensor kv_indices =
      integers_of<int32_t>({1, 1, 4, 4}, {0, 1, 2, 3, 1, 0, 2, 3, 2, 0, 1, 3, 3, 0, 1, 2});
  const Tensor full_kv_num_blocks = integers_of<int32_t>({1, 1, 4}, {0, 1, 2, 3});
  const Tensor full_kv_indices =
      integers_of<int32_t>({1, 1, 4, 4}, {0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 2, 3, 2, 0, 1, 3});
  const BlockLayout layout = rapt::layout_of_block_mask(
      {kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, 2, 2});
  EXPECT_EQ(elements_of(layout.indices), (std::vector<int64_t>{0, 0, 1, 0, 1, 2}));
  EXPECT_EQ(elements_of(layout.partial_indices), (std::vector<int64_t>{0, 1, 2, 3}));
  const Blocks full = layout.full(), partial = layout.partial();
  const rapt::Causal causal;
  const rapt::And decided{&partial, &causal};
  const rapt::Or mask{&full, &decided};
  EXPECT_TRUE(same_results(attended_by_layout(mask, 8, 8), attended_by_layout(causal, 8, 8)));

  // Without full blocks, the other mask decides all pairs.
  const BlockLayout all_partial =
      rapt::layout_of_block_mask({kv_num_blocks, kv_indices, {}, {}, 2, 2});
  EXPECT_EQ(all_partial.indices.count(), 0);
  EXPECT_EQ(elements_of(all_partial.partial_indices), (std::vector<int64_t>{0, 1, 2, 3}));
}

TEST(BlockLayout, OfBigBirdsAdjacency) {
  // Two heads of 6 blocks with 2 random ones per row; some are listed already.
  const Tensor random_blocks = integers_of<int32_t>({1, 2, 4, 2}, {4, 3, 5, 0, 1, 1, 2, 1,  //
                                                                   3, 4, 4, 5, 0, 1, 1, 2});
  const BlockLayout layout = rapt::layout_of_bigbird(random_blocks, 3);
  EXPECT_EQ(elements_of(layout.starts),
            (std::vector<int64_t>{0, 6, 12, 17, 23, 29, 35, 35, 41, 47, 53, 59, 65, 71}));
  const std::vector<int64_t> rows(layout.indices.values<int64_t>().begin() + 12,
                                  layout.indices.values<int64_t>().begin() + 17);
  EXPECT_EQ(rows, (std::vector<int64_t>{0, 1, 2, 3, 5}));
  EXPECT_EQ(layout.partial_indices.count(), 0);
  const Blocks mask = layout.full();
  mask.check(Dims{2, 2}, 18, 18);
}

// The lists of BigBird have its bits.
TEST(BlockLayout, ListsOfBigBird) {
  const rapt::BigBird bigbird(16, 3, 1, 2, 5);
  const Tensor pairs = matrix_of_mask(bigbird, {1, 3}, 160, 160);
  const BlockLayout layout = rapt::layout_of_pairs(pairs, 16, 16);
  EXPECT_EQ(layout.partial_indices.count(), 0);
  const Blocks mask = layout.full();
  EXPECT_TRUE(
      same_results(attended_by_layout(mask, 160, 160), attended_by_layout(bigbird, 160, 160)));
}

TEST(Blocks, Rejections) {
  const auto rejected = [](ErrorCode code, const char* words, const std::vector<int64_t>& starts,
                           const std::vector<int64_t>& indices, int64_t query_block = 2,
                           int64_t key_block = 2) {
    const Tensor s = integers_of<int64_t>({static_cast<int64_t>(starts.size())}, starts);
    const Tensor i = integers_of<int64_t>({static_cast<int64_t>(indices.size())}, indices);
    expect_error(code, {words}, [&] { Blocks(query_block, key_block, s, i).check({}, 4, 6); });
  };
  const Tensor s = integers_of<int64_t>({3}, {0, 1, 3}), i = integers_of<int64_t>({3}, {1, 0, 2});
  Blocks(2, 2, s, i).check(Dims{5}, 4, 6);
  rejected(ErrorCode::argument, "query_block = 0", {0, 1, 3}, {1, 0, 2}, 0);
  rejected(ErrorCode::argument, "key_block = -1", {0, 1, 3}, {1, 0, 2}, 2, -1);
  rejected(ErrorCode::shape, "expected 3 for each head", {0, 1}, {1});
  rejected(ErrorCode::argument, "lists key block 3; expected 0 to 2", {0, 1, 3}, {1, 0, 3});
  rejected(ErrorCode::argument, "lists key block -1", {0, 1, 3}, {-1, 0, 2});
  rejected(ErrorCode::argument, "lists key block 0 behind 2", {0, 1, 3}, {1, 2, 0});
  rejected(ErrorCode::argument, "lists key block 2 behind 2", {0, 1, 3}, {1, 2, 2});
  rejected(ErrorCode::argument, "row 1 is [2, 1)", {0, 2, 1}, {1, 2, 2});
  rejected(ErrorCode::argument, "row 1 is [1, 4)", {0, 1, 4}, {1, 0, 2});
  rejected(ErrorCode::argument, "row 0 is [-1, 1)", {-1, 1, 3}, {1, 0, 2});
  expect_error(ErrorCode::argument, {"no tensor"}, [] {
    Blocks mask;
    mask.query_block = mask.key_block = 2;
    mask.check({}, 4, 4);
  });
  const Tensor of_heads = integers_of<int64_t>({2, 3}, {0, 1, 3, 0, 1, 3});
  expect_error(ErrorCode::shape, {"[2, 3]"},
               [&] { Blocks(2, 2, of_heads, i).check(Dims{3}, 4, 6); });
  const Tensor matrix = integers_of<int64_t>({1, 3}, {1, 0, 2});
  expect_error(ErrorCode::shape, {"indices"},
               [&] { Blocks(2, 2, s, matrix).check(Dims{3}, 4, 6); });
}

TEST(BlockLayout, Rejections) {
  const Tensor pairs = filled(DType::boolean, {4, 4}, 1), numbers = filled(DType::f32, {4, 4}, 1);
  expect_error(ErrorCode::argument, {"length of 0"}, [&] { rapt::layout_of_pairs(pairs, 0, 2); });
  expect_error(ErrorCode::dtype, {"bool"}, [&] { rapt::layout_of_pairs(numbers, 2, 2); });
  expect_error(ErrorCode::argument, {"missing"}, [] { rapt::layout_of_pairs({}, 2, 2); });

  const Tensor one_each = integers_of<int32_t>({2}, {1, 1}),
               both = integers_of<int32_t>({2}, {1, 3});
  const Tensor indices = integers_of<int32_t>({2, 2}, {0, 1, 1, 0});
  const Tensor beyond = integers_of<int32_t>({2, 2}, {0, 1, 2, 0});
  const Tensor three = integers_of<int32_t>({3}, {1, 1, 1});
  const auto of = [](const Tensor& number, const Tensor& index) {
    rapt::layout_of_block_mask({number, index, {}, {}, 2, 2});
  };
  of(one_each, indices);
  expect_error(ErrorCode::argument, {"kv_num_blocks has 3 in row 1"}, [&] { of(both, indices); });
  expect_error(ErrorCode::argument, {"kv_indices has 2 in row 1"}, [&] { of(one_each, beyond); });
  expect_error(ErrorCode::shape, {"[3]"}, [&] { of(three, indices); });
  expect_error(ErrorCode::dtype, {"f32"}, [&] { of(numbers, indices); });
  expect_error(ErrorCode::argument, {"row 0 lists block 0 twice"}, [&] {
    rapt::layout_of_block_mask({one_each, indices, one_each, indices, 2, 2});
  });
  expect_error(ErrorCode::argument, {"full_kv_indices is missing"}, [&] {
    rapt::layout_of_block_mask({one_each, indices, one_each, {}, 2, 2});
  });
  const Tensor random_blocks = integers_of<int64_t>({2, 1}, {3, 4});
  expect_error(ErrorCode::argument, {"random_blocks has 4 for row 2; expected 0 to 3"},
               [&] { rapt::layout_of_bigbird(random_blocks, 2); });
}

}  // namespace
}  // namespace laws
