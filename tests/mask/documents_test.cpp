// Packed documents and prefixes: the results of separate calls, skipped tiles, and what is
// rejected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "rapt/mask/and.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/documents.h"
#include "rapt/mask/documents_by_starts.h"
#include "rapt/mask/or.h"
#include "rapt/mask/prefix.h"
#include "support/call.h"

namespace laws {
namespace {

using rapt::BoundMask;
using rapt::ErrorCode;
using rapt::KeyRange;

Tensor int64s(const Dims& dims, std::initializer_list<int64_t> values) {
  Tensor tensor(DType::i64, dims);
  std::copy(values.begin(), values.end(), tensor.values<int64_t>().begin());
  return tensor;
}

// A separate call per document gives the same results up to rounding: keys are summed in blocks
// that begin at the row's first key, so the sums have another order.
TEST(Documents, AsSeparateCalls) {
  Random random(base_seed());
  const int64_t starts[] = {0, 37, 37, 150, 151, 400};
  const int64_t n = 400, documents = 5;
  const Tensor query = random_normal(random, DType::f64, {2, n, 8});
  const Tensor key = random_normal(random, DType::f64, {2, n, 8});
  const Tensor value = random_normal(random, DType::f64, {2, n, 8});
  const rapt::DocumentsByStarts by_starts(TensorView(starts, {documents + 1}));
  Tensor ids(DType::i64, {n});
  for (int64_t i = 0; i < n; ++i)
    ids.values<int64_t>()[static_cast<size_t>(i)] =
        std::upper_bound(starts, starts + documents, i) - starts - 100;
  const rapt::Documents by_ids(ids);
  const rapt::Causal causal;

  AttentionOptions packed, packed_by_ids, alone;
  packed.masks = {&by_starts, &causal};
  packed_by_ids.masks = {&by_ids, &causal};
  alone.masks = {&causal};
  const AttentionResult all = scaled_dot_product_attention(query, key, value, packed);
  EXPECT_TRUE(same_results(scaled_dot_product_attention(query, key, value, packed_by_ids), all));
  for (int64_t d = 0; d < documents; ++d) {
    const auto part = [&](const Tensor& t) { return t.view().slice(1, starts[d], starts[d + 1]); };
    const AttentionResult own =
        scaled_dot_product_attention(part(query), part(key), part(value), alone);
    const TensorView same = part(all.output);
    for_each_index(same.dims(), [&](auto at) {
      EXPECT_NEAR(get(same, at), get(own.output, at), 1e-13) << "document " << d;
    });
  }
}

// Only tiles on the diagonal of documents are computed, by starts as by ids that are in order.
TEST(Documents, TilesOfOthersAreSkipped) {
  const int64_t n = 4096, documents = 16;
  const Tensor x = filled(DType::f32, {n, 64}, 0);
  Tensor starts(DType::i64, {documents + 1}), ids(DType::i64, {n}), shuffled(DType::i64, {n});
  for (int64_t d = 0; d <= documents; ++d)
    starts.values<int64_t>()[static_cast<size_t>(d)] = d * n / documents;
  for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
    ids.values<int64_t>()[i] = static_cast<int64_t>(i) * documents / n;
    shuffled.values<int64_t>()[i] = ids.values<int64_t>()[i] * 7 % documents;  // not in order
  }
  const rapt::DocumentsByStarts by_starts(starts);
  const rapt::Documents by_ids(ids), out_of_order(shuffled);
  const auto plan = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return rapt::plan(x, x, x, options);
  };
  const rapt::Plan expected = plan(by_starts);
  EXPECT_EQ(expected.allowed_scores, n * n / documents);
  EXPECT_LT(expected.tiles_computed + expected.tiles_partial, expected.tiles_skipped / 3);
  for (const rapt::Plan& same : {plan(by_ids), plan(out_of_order)}) {
    EXPECT_EQ(same.allowed_scores, expected.allowed_scores);
    EXPECT_EQ(same.tiles_computed, expected.tiles_computed);
    EXPECT_EQ(same.tiles_partial, expected.tiles_partial);
    EXPECT_EQ(same.tiles_skipped, expected.tiles_skipped);
  }
}

// Ids that are in order are found by halving: the range is that of the documents of the tile.
TEST(Documents, RangeOfIdsInOrder) {
  const Tensor query = int64s({3}, {-7, 4, 4}), key = int64s({6}, {-9, -7, -7, 1, 4, 9});
  const rapt::Documents mask(query, key);
  mask.check({}, 3, 6);
  BoundMask bound{&mask, nullptr, {}, 3, 6};
  mask.bind({nullptr, 0, 3, 6}, &bound);
  const auto range = [&](rapt::Positions queries) {
    const KeyRange r = mask.key_range(bound, queries);
    return std::pair(r.begin, r.end);
  };
  EXPECT_EQ(range({0, 1, 1}), std::pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(range({1, 1, 2}), std::pair(int64_t{4}, int64_t{5}));
  EXPECT_EQ(range({0, 1, 3}), std::pair(int64_t{1}, int64_t{5}));
}

// A query whose document has no keys gives what every query without allowed keys gives.
TEST(Documents, EmptyOnOneSide) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {4, 3});
  const Tensor key = random_normal(random, DType::f32, {5, 3});
  const Tensor query_starts = int64s({4}, {0, 2, 4, 4}), key_starts = int64s({4}, {0, 3, 3, 5});
  const rapt::DocumentsByStarts mask(query_starts, key_starts);
  AttentionOptions options;
  options.masks = {&mask};
  const AttentionResult result = scaled_dot_product_attention(query, key, key, options);
  const auto lse = result.statistic.values<float>();
  EXPECT_TRUE(std::isfinite(lse[0]) && std::isfinite(lse[1]));
  EXPECT_EQ(lse[2], -INFINITY);
  EXPECT_EQ(lse[3], -INFINITY);
  for (size_t i = 6; i < 12; ++i) EXPECT_EQ(result.output.values<float>()[i], 0);
}

// Prefix-LM: all queries attend to the prefix, per batch or for all.
TEST(Prefix, BesideCausal) {
  Random random(base_seed());
  const int64_t n = 70;
  const Tensor x = random_normal(random, DType::f32, {2, n, 4});
  const Tensor lengths = int64s({2}, {20, 20});
  const rapt::Causal causal;
  const rapt::Prefix for_all(20), per_batch(lengths);
  Tensor allowed(DType::boolean, {n, n});
  for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, i[1] <= i[0] || i[1] < 20); });
  const rapt::Boolean pairs(allowed);
  const auto attend = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    return scaled_dot_product_attention(x, x, x, options);
  };
  const AttentionResult expected = attend(pairs);
  EXPECT_TRUE(same_results(attend(rapt::Or{&causal, &for_all}), expected));
  EXPECT_TRUE(same_results(attend(rapt::Or{&per_batch, &causal}), expected));
}

// A mask over temporary tensors, which live until the end of the caller's statement: long enough
// for a call that is rejected.
template <class M, class... Tensors>
M mask_of(const Tensors&... tensors) {
  return M(tensors...);
}

void expect_refused(const rapt::Mask& mask, int64_t q_len, int64_t k_len, ErrorCode code,
                    std::string_view fragment) {
  SCOPED_TRACE(fragment);
  const Tensor query = filled(DType::f32, {2, 3, q_len, 4}, 0);
  const Tensor key = filled(DType::f32, {2, 3, k_len, 4}, 0);
  AttentionOptions options;
  options.masks = {&mask};
  try {
    scaled_dot_product_attention(query, key, key, options);
    ADD_FAILURE() << "accepted";
  } catch (const rapt::Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(fragment), std::string::npos) << error.what();
  }
}

TEST(Documents, StartsThatCannotBe) {
  using S = rapt::DocumentsByStarts;
  const auto argument = ErrorCode::argument, shape = ErrorCode::shape;
  const Tensor good = int64s({3}, {0, 2, 5});
  expect_refused(S(), 5, 5, argument, "query_starts: no tensor");
  expect_refused(mask_of<S>(int64s({3}, {1, 2, 5})), 5, 5, argument,
                 "the first start is 1; expected 0");
  expect_refused(mask_of<S>(int64s({3}, {0, 2, 4})), 5, 5, argument, "the last is 4");
  expect_refused(mask_of<S>(int64s({3}, {0, 2, 9})), 5, 5, argument,
                 "expected the length of the sequence, 5");
  expect_refused(mask_of<S>(int64s({4}, {0, 4, 3, 5})), 5, 5, argument,
                 "start 2 is 3, below the 4");
  expect_refused(mask_of<S>(int64s({4}, {0, -1, 3, 5})), 5, 5, argument,
                 "start 1 is -1, below the 0");
  expect_refused(mask_of<S>(int64s({1}, {0})), 5, 5, shape, "at least one document");
  expect_refused(mask_of<S>(int64s({0}, {})), 5, 5, shape, "at least one document");
  expect_refused(mask_of<S>(int64s({1, 3}, {0, 2, 5})), 5, 5, shape, "[documents + 1]");
  expect_refused(S(good), 5, 6, argument, "give key_starts, too");
  expect_refused(mask_of<S>(good, int64s({4}, {0, 1, 2, 6})), 5, 6, shape,
                 "2 documents of queries but 3");
  expect_refused(mask_of<S>(good, int64s({3}, {0, 1, 5})), 5, 6, argument,
                 "key_starts: the last is 5");
  const Tensor floats = filled(DType::f32, {3}, 0);
  expect_refused(S(floats), 5, 5, ErrorCode::dtype, "expected i64, got f32");
  expect_refused(S(TensorView(static_cast<int64_t*>(nullptr), {3})), 5, 5, argument,
                 "null pointer");
}

TEST(Documents, IdsThatCannotBe) {
  using D = rapt::Documents;
  const auto argument = ErrorCode::argument, shape = ErrorCode::shape;
  const Tensor five = int64s({5}, {1, 1, 2, 2, 2}), six = int64s({6}, {1, 1, 2, 2, 2, 2});
  expect_refused(D(), 5, 5, argument, "query_ids: no tensor");
  expect_refused(D(five), 5, 6, argument, "give key_ids, too");
  expect_refused(D(six), 5, 6, shape, "one id per query, 5");
  expect_refused(D(five, five), 5, 6, shape, "one id per key, 6");
  expect_refused(mask_of<D>(int64s({}, {1})), 1, 1, shape, "at least 1 dimension");
  expect_refused(mask_of<D>(filled(DType::i64, {3, 5}, 0)), 5, 5, shape,
                 "first leading dimensions [2, 3]");
  expect_refused(mask_of<D>(filled(DType::i64, {2, 3, 1, 5}, 0)), 5, 5, shape,
                 "first leading dimensions");
  expect_refused(mask_of<D>(filled(DType::f32, {5}, 0)), 5, 5, ErrorCode::dtype,
                 "expected i64, got f32");
  expect_refused(D(TensorView(static_cast<int64_t*>(nullptr), {5})), 5, 5, argument,
                 "null pointer");
}

TEST(Prefix, LengthsThatCannotBe) {
  using P = rapt::Prefix;
  const auto argument = ErrorCode::argument;
  expect_refused(P(-1), 5, 5, argument, "length = -1 is out of range");
  expect_refused(mask_of<P>(int64s({2}, {3, -4})), 5, 5, argument, "a length of -4 keys");
  P both(3);
  const Tensor lengths = int64s({2}, {1, 2});
  both.lengths = lengths;
  expect_refused(both, 5, 5, argument, "expected one of them");
  expect_refused(mask_of<P>(int64s({3}, {1, 2, 3})), 5, 5, ErrorCode::shape,
                 "first leading dimensions");
  // Longer than the keys means all of them.
  const P long_one(99);
  EXPECT_NO_THROW(long_one.check({}, 5, 5));
}

// Faults of parts are found below any combination.
TEST(Documents, FaultsWithinACombination) {
  const rapt::Causal causal;
  const Tensor starts = int64s({2}, {0, 4});
  const rapt::DocumentsByStarts wrong(starts);
  const rapt::And inner{&causal, &wrong};
  expect_refused(rapt::Or{&causal, &inner}, 5, 5, ErrorCode::argument, "the last is 4");
}

}  // namespace
}  // namespace laws
