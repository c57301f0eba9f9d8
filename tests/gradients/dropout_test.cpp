// Dropout, on every instruction set: the numbers are those that rapt/dropout.h defines, the forward
// pass drops exactly the pairs that dropout_mask() names, and nothing else changes.
#include "rapt/dropout.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "check/reference/philox.h"
#include "check/tensors/arrays.h"
#include "kernels/kernel_table.h"
#include "rapt/attention.h"
#include "rapt/mask/causal.h"
#include "rapt/mask/prefix.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace rapt {
namespace {

using check::Dims;
using check::Random;
using laws::expect_error;

// kept [dims] of a call.
Tensor mask_of(const Dropout& dropout, const Dims& dims) {
  Tensor kept(DType::boolean, dims);
  dropout_mask(dropout, kept);
  return kept;
}

// A pair is kept for probabilities up to its number, and dropped above.
TEST(DropoutMaskTest, KnownAnswers) {
  const uint32_t words[] = {0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8};
  for (size_t j = 0; j < 4; ++j) {
    const Tensor at = mask_of({std::ldexp(words[j], -32), 0}, {1, 4});
    const Tensor above = mask_of({std::ldexp(words[j] + 1.0, -32), 0}, {1, 4});
    EXPECT_TRUE(at.values<bool>()[j]);
    EXPECT_FALSE(above.values<bool>()[j]);
  }
}

TEST(DropoutMaskTest, IsTheDefinition) {
  Random random(1);
  for (int trial = 0; trial < 60; ++trial) {
    const Dropout dropout{random.pick({0.0, 1e-3, 0.1, 0.5, 0.9, 1 - 0x1p-33}), random.next()};
    Dims dims(static_cast<size_t>(random.between(0, 2)), 0);
    for (int64_t& length : dims) length = random.between(1, 3);
    dims.push_back(random.between(1, 150));
    dims.push_back(random.between(1, 300));
    const Tensor kept = mask_of(dropout, dims);
    const auto values = kept.values<bool>();
    size_t at = 0;
    const int64_t q_len = dims[dims.size() - 2], k_len = dims.back();
    for (int64_t head = 0; at < values.size(); ++head)
      for (int64_t i = 0; i < q_len; ++i)
        for (int64_t j = 0; j < k_len; ++j, ++at)
          ASSERT_EQ(values[at], check::is_kept(dropout.probability, dropout.seed, head, i, j))
              << head << ", " << i << ", " << j;
  }
}

TEST(DropoutMaskTest, WritesThroughAnyStrides) {
  const Dropout dropout{0.4, 77};
  const Tensor dense = mask_of(dropout, {2, 3, 70, 133});
  for (const check::Layout layout :
       {check::Layout::padded, check::Layout::transposed, check::Layout::negative,
        check::Layout::strided, check::Layout::interleaved}) {
    const Tensor other = check::mapped(dense, [](double x, auto) { return 1 - x; });
    const check::Strided strided(other, layout);
    TensorView view = strided;
    view.read_only = false;
    dropout_mask(dropout, view);
    EXPECT_EQ(check::values_of(view), check::values_of(dense)) << check::name_of(layout);
  }
  Tensor none(DType::boolean, {3, 0, 5});
  dropout_mask(dropout, none);  // nothing to write
}

// Positions far beyond what a mask could hold, at and across 2^32, in any tile.
TEST(DropoutKernelTest, LargeIndices) {
  Random random(2);
  const auto some = [&] {
    const int64_t near_2_to_32 = (int64_t{1} << 32) - random.between(0, 70);
    return random.pick({near_2_to_32, random.between(0, 100),
                        random.between(0, (int64_t{1} << 54) - 1),
                        (int64_t{1} << 34) - random.between(0, 70)});
  };
  for (const auto draw : {kernels<float>().dropout.draw, kernels<double>().dropout.draw})
    for (int trial = 0; trial < 2000; ++trial) {
      const uint64_t seed = random.next(), threshold = random.next() >> 32;
      const int64_t head = some(), first_query = some(), first_key = some();
      const int64_t keys = random.between(0, 9), queries = random.between(1, 64);
      uint64_t bits[10];
      bits[keys] = 0xABCD;
      draw(seed, threshold, head, first_query, first_key, keys, queries, bits);
      ASSERT_EQ(bits[keys], 0xABCDu);
      for (int64_t j = 0; j < keys; ++j) {
        uint64_t expected = 0;
        for (int64_t i = 0; i < queries; ++i)
          expected |=
              uint64_t{check::dropout_word(seed, static_cast<uint64_t>(head),
                                           static_cast<uint64_t>(first_query + i),
                                           static_cast<uint64_t>(first_key + j)) >= threshold}
              << i;
        ASSERT_EQ(bits[j], expected) << head << ", " << first_query << ", " << first_key + j;
      }
    }
}

template <class E>
class KeepTest : public testing::Test {};
using Elements = testing::Types<float, double>;
TYPED_TEST_SUITE(KeepTest, Elements, );

TYPED_TEST(KeepTest, MultipliesOrClears) {
  using E = TypeParam;
  const KernelTable<E>& table = kernels<E>();
  Random random(3);
  for (int vectors = 1; vectors <= table.max_vectors; ++vectors) {
    const int64_t queries = vectors * table.lanes, keys = 5;
    std::vector<E> tile(static_cast<size_t>(keys * queries));
    uint64_t bits[keys];
    for (E& x : tile)
      x = random.chance(0.2) ? std::numeric_limits<E>::quiet_NaN()
                             : static_cast<E>(random.between(-9, 9));
    for (uint64_t& word : bits) word = random.next();
    std::vector<E> expected = tile;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t i = 0; i < queries; ++i) {
        E& x = expected[static_cast<size_t>(j * queries + i)];
        x = bits[j] >> i & 1 ? x * 3 : 0;
      }
    table.dropout.keep(tile.data(), bits, keys, queries, 3);
    for (size_t x = 0; x < tile.size(); ++x)
      EXPECT_TRUE(tile[x] == expected[x] || (std::isnan(tile[x]) && std::isnan(expected[x])));
  }
}

// Of n independent pairs n (1 - p) are kept, within five standard deviations, which one seed in two
// million exceeds. The same holds for neighbours, which share their counter or differ in one bit of
// it.
TEST(DropoutMaskTest, SharesAreThoseOfIndependentPairs) {
  constexpr int64_t kSize = 1024;
  for (const double p : {0.001, 0.1, 0.5, 0.9}) {
    const Tensor kept = mask_of({p, 5}, {kSize, kSize});
    const auto values = kept.values<bool>();
    const auto expect_share = [&](double probability, auto holds) {
      double count = 0, all = 0;
      for (int64_t i = 0; i + 4 < kSize; ++i)
        for (int64_t j = 0; j + 4 < kSize; ++j, ++all) count += holds(i * kSize + j);
      const double deviation = std::sqrt(all * probability * (1 - probability));
      EXPECT_NEAR(count, all * probability, 5 * deviation) << p;
    };
    const auto at = [&](int64_t x) { return values[static_cast<size_t>(x)]; };
    expect_share(1 - p, at);
    for (const int64_t next : {int64_t{1}, int64_t{4}, kSize, kSize + 1})
      expect_share(2 * p * (1 - p), [&](int64_t x) { return at(x) != at(x + next); });
  }
}

// A problem whose output shows its weights: the values are the unit matrix.
struct Shown {
  Tensor query, key, value;

  Shown(DType dtype, const Dims& leading, int64_t q_len, int64_t k_len, Random& random) {
    const auto with = [&](int64_t rows, int64_t columns) {
      Dims dims = leading;
      dims.insert(dims.end(), {rows, columns});
      return dims;
    };
    query = check::random_normal(random, dtype, with(q_len, 8));
    key = check::random_normal(random, dtype, with(k_len, 8));
    value = check::mapped(check::filled(dtype, {k_len, k_len}, 0),
                          [](double, auto index) { return index[0] == index[1] ? 1 : 0; });
  }
  AttentionResult attend(const AttentionOptions& options, const Context& context = {}) const {
    return scaled_dot_product_attention(query, key, value, options, context);
  }
};

// `with` is `without` where the mask keeps a pair, times 1 / (1 - p), and 0 elsewhere. Four numbers
// are rounded on the way: both inverses, 1 / (1 - p) and the product with it, and both outputs, of
// which two roundings go opposite ways at most three times.
void expect_dropped(const Tensor& with, const Tensor& without, const Tensor& kept, double p) {
  const std::vector<double> x = check::values_of(with), y = check::values_of(without);
  const auto keep = kept.values<bool>();
  ASSERT_EQ(x.size(), keep.size());
  const double epsilon = with.dtype() == DType::f64 ? 0x1p-52 : 0x1p-23;
  int64_t dropped = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = keep[i] ? y[i] / (1 - check::drawn_probability(p)) : 0;
    ASSERT_NEAR(x[i], expected, 2 * epsilon * expected) << i;
    dropped += x[i] == 0 && y[i] != 0;
  }
  EXPECT_GT(dropped, 0);
}

TEST(DropoutForwardTest, DropsThePairsOfTheMask) {
  Random random(6);
  const Causal causal(Anchor::bottom_right);
  const int64_t batches = RAPT_SANITIZED ? 1 : 2;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16})
    for (const bool masked : {false, true})
      for (const double p : {0.1, 0.7}) {
        if (RAPT_SANITIZED && masked == (p < 0.5)) continue;
        const Shown shown(dtype, {batches, 3}, 211, 300, random);
        AttentionOptions options;
        if (dtype != DType::f64) options.output_dtype = DType::f32;
        if (masked) options.masks = {&causal};
        const Tensor without = shown.attend(options).output;
        options.dropout = {p, random.next()};
        const Tensor with = shown.attend(options).output;
        expect_dropped(with, without, mask_of(options.dropout, {batches, 3, 211, 300}), p);
      }
}

TEST(DropoutForwardTest, PackedSequencesCountInTheWholeTensors) {
  Random random(7);
  const Shown shown(DType::f32, {2}, 90, 200, random);
  const int64_t queries[] = {0, 17, 17, 60, 90}, keys[] = {0, 3, 50, 181, 200};
  AttentionOptions options;
  options.packed = {TensorView(queries, {5}), TensorView(keys, {5})};
  const Tensor without = shown.attend(options).output;
  options.dropout = {0.3, 12};
  expect_dropped(shown.attend(options).output, without, mask_of(options.dropout, {2, 90, 200}),
                 0.3);
}

void expect_same_bits(const Tensor& a, const Tensor& b, const char* what) {
  const auto difference = check::difference_of_bits(a, b);
  EXPECT_FALSE(difference) << what << ": " << *difference;
}

// Threads, the caller's memory, and how many queries there are.
TEST(DropoutForwardTest, BitsDependOnTheNumbersAlone) {
  Random random(8);
  const Shown shown(DType::f32, {3}, 400, 257, random);
  AttentionOptions options;
  options.dropout = {0.2, 99};
  options.invariant = true;
  const Tensor expected = shown.attend(options, {.threads = 1}).output;
  for (const int threads : {2, 3, 8})
    expect_same_bits(shown.attend(options, {.threads = threads}).output, expected, "threads");

  Tensor output(DType::f32, {3, 400, 257});
  std::vector<std::byte> memory(workspace_bytes(shown.query, shown.key, shown.value, options));
  scaled_dot_product_attention(shown.query, shown.key, shown.value, options, {{output}}, memory);
  expect_same_bits(output, expected, "the caller's memory");

  for (const int64_t fewer : {1, 5, 100, 399}) {
    const Tensor prefix = scaled_dot_product_attention(shown.query.view().slice(1, 0, fewer),
                                                       shown.key, shown.value, options)
                              .output;
    expect_same_bits(prefix, Tensor::copy_of(expected.view().slice(1, 0, fewer)), "a prefix");
  }
  options.dropout.seed = 100;
  EXPECT_TRUE(check::difference_of_bits(shown.attend(options).output, expected));
}

TEST(DropoutForwardTest, OnlyTheOutputChanges) {
  Random random(9);
  const Shown shown(DType::f32, {2}, 70, 150, random);
  AttentionOptions options;
  options.weights.emplace();
  options.map = MapRequest{5, 7};
  options.top_k = 4;
  options.entropy = options.received = true;
  const AttentionResult without = shown.attend(options);
  options.dropout = {0, 5};
  expect_same_bits(shown.attend(options).output, without.output, "probability 0");
  options.dropout = {0x1p-34, 5};
  expect_same_bits(shown.attend(options).output, without.output, "probability below 2^-33");
  options.dropout = {0.5, 5};
  const AttentionResult with = shown.attend(options);
  EXPECT_TRUE(check::difference_of_bits(with.output, without.output));
  expect_same_bits(with.statistic, without.statistic, "lse");
  expect_same_bits(with.weights, without.weights, "weights");
  expect_same_bits(with.map, without.map, "map");
  expect_same_bits(with.top_keys, without.top_keys, "top keys");
  expect_same_bits(with.top_weights, without.top_weights, "top weights");
  expect_same_bits(with.entropy, without.entropy, "entropy");
  expect_same_bits(with.received, without.received, "received");
}

// Dropped pairs are not masked: a NaN propagates from dropped pairs as from all others, and never
// from masked ones, in blocks with and without masked keys.
TEST(DropoutForwardTest, NaNsOfDroppedPairsShow) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  Random random(10);
  const Prefix prefix(200);
  for (const bool masked : {false, true})
    for (const int64_t at : {3, 199, 210}) {
      Shown shown(DType::f32, {}, 60, 220, random);
      for (const bool in_value : {false, true}) {
        const Tensor changed = check::mapped(
            in_value ? shown.value : shown.key,
            [&](double x, auto index) { return index[0] == at && index[1] == 2 ? kNan : x; });
        AttentionOptions options;
        if (masked) options.masks = {&prefix};
        options.dropout = {0.5, 21};
        const Tensor output =
            in_value
                ? scaled_dot_product_attention(shown.query, shown.key, changed, options).output
                : scaled_dot_product_attention(shown.query, changed, shown.value, options).output;
        for (int64_t i = 0; i < 60; ++i)
          EXPECT_EQ(std::isnan(output.values<float>()[static_cast<size_t>(i * 220 + 2)]),
                    !masked || at < 200)
              << at << ", " << i;
      }
    }
}

// All pairs of a row dropped, and rows without keys: 0.
TEST(DropoutForwardTest, RowsOfNothing) {
  Random random(11);
  const Shown shown(DType::f32, {}, 50, 3, random);
  AttentionOptions options;
  options.dropout = {1 - 0x1p-20, 4};
  const AttentionResult dropped = shown.attend(options);
  for (const float x : dropped.output.values<float>()) EXPECT_EQ(x, 0);
  for (const float x : dropped.statistic.values<float>()) EXPECT_TRUE(std::isfinite(x));
  const Prefix none(0);
  options.masks = {&none};
  options.dropout = {0.5, 4};
  const AttentionResult unseen = shown.attend(options);
  for (const float x : unseen.output.values<float>()) EXPECT_EQ(x, 0);
}

TEST(DropoutTest, BadInput) {
  Tensor kept(DType::boolean, {4, 5});
  Random random(12);
  const Shown shown(DType::f32, {}, 4, 5, random);
  for (const double p : {-0.1, 1.0, 1.5, std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity()}) {
    expect_error(ErrorCode::argument, {"dropout.probability is"}, [&] {
      dropout_mask({p, 0}, kept);
    });
    AttentionOptions options;
    options.dropout.probability = p;
    expect_error(ErrorCode::argument, {"dropout.probability is"}, [&] { shown.attend(options); });
    expect_error(ErrorCode::argument, {"dropout.probability is"},
                 [&] { plan(shown.query, shown.key, shown.value, options); });
  }
  const Dropout dropout{0.1, 0};
  const auto refuse = [&](ErrorCode code, const char* part, const TensorView& view) {
    expect_error(code, {part}, [&] { dropout_mask(dropout, view); });
  };
  refuse(ErrorCode::argument, "missing", {});
  refuse(ErrorCode::argument, "null", TensorView(static_cast<bool*>(nullptr), {4, 5}));
  refuse(ErrorCode::argument, "read-only", std::as_const(kept).view());
  refuse(ErrorCode::argument, "share memory",
         TensorView(static_cast<bool*>(kept.data()), {4, 5}, {0, 1}));
  refuse(ErrorCode::dtype, "is u8", TensorView(static_cast<uint8_t*>(kept.data()), {4, 5}));
  refuse(ErrorCode::shape, "rank 1", TensorView(static_cast<bool*>(kept.data()), {20}));
  TensorView negative(static_cast<bool*>(kept.data()), {4, 5});
  negative.shape[0] = -4;
  refuse(ErrorCode::shape, "-4", negative);
}

}  // namespace
}  // namespace rapt
