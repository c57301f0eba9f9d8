// Relative positions within the products: properties that hold for all tables. Tables of zeros or
// of equal rows change nothing or all scores of a query alike; only the distance counts; heads,
// packed sequences and chosen rows equal separate calls; threads and strides change no bit; a NaN
// shows where it is read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rapt/mask/causal.h"
#include "rapt/mask/not.h"
#include "rapt/mask/prefix.h"
#include "rapt/mask/window.h"
#include "rapt/relative.h"
#include "support/executors.h"
#include "support/one_head.h"

namespace laws {
namespace {

using rapt::Anchor;
using rapt::RelativePositions;

double largest_difference(const TensorView& a, const TensorView& b) {
  double largest = 0;
  for_each_index(a.dims(), [&](auto i) {
    const double d = std::abs(get(a, i) - get(b, i));
    largest = d <= largest ? largest : d;  // a NaN is the largest
  });
  return largest;
}

// The tolerance between two ways to the same result in f64: sums of 5 dims products of normal
// numbers below 6, in scores and then in a mean of values.
double apart(int64_t dims, int64_t keys) {
  const double of_score = 4 * kUnit * static_cast<double>(5 * dims) * 36 * std::sqrt(dims);
  return 12 * (of_score + 4 * kUnit * static_cast<double>(keys + 16));
}

// One row for all distances shifts all scores of a query alike, and all values.
TEST(Relative, one_row_is_a_shift) {
  Random random(4);
  const OneHead in(random, 60, 140, 12);
  const Tensor row = random_normal(random, DType::f64, {1, 12}),
               values = random_normal(random, DType::f64, {1, 12});
  const AttentionResult plain = scaled_dot_product_attention(in.query, in.key, in.value);
  AttentionOptions options;
  options.relative.key_rows = row;
  AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
  EXPECT_LE(largest_difference(got.output, plain.output), apart(12, 140));
  for (int64_t i = 0; i < in.q_len; ++i) {
    double shift = 0;
    for (int64_t d = 0; d < 12; ++d) shift += at(in.query, i, d) * at(row, 0, d);
    EXPECT_NEAR(get(got.statistic, Dims{i}), get(plain.statistic, Dims{i}) + shift / std::sqrt(12),
                apart(12, 140));
  }
  options.relative = {};
  options.relative.value_rows = values;
  got = scaled_dot_product_attention(in.query, in.key, in.value, options);
  const Tensor shifted =
      mapped(plain.output, [&](double x, auto i) { return x + at(values, 0, i[1]); });
  EXPECT_LE(largest_difference(got.output, shifted), apart(12, 140));
}

// Tables of zeros, of either sign, change nothing.
TEST(Relative, zeros_change_nothing) {
  Random random(5);
  const OneHead in(random, 40, 100, 9);
  const AttentionResult plain = scaled_dot_product_attention(in.query, in.key, in.value);
  for (const double zero : {0.0, -0.0}) {
    const Tensor rows = filled(DType::f64, {17, 9}, zero), bias = filled(DType::f64, {9}, zero);
    AttentionOptions options;
    RelativePositions& r = options.relative;
    r.key_rows = r.query_rows = r.value_rows = rows;
    r.content_bias = r.position_bias = bias;
    const AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
    EXPECT_LE(largest_difference(got.output, plain.output), apart(9, 100));
    EXPECT_LE(largest_difference(got.statistic, plain.statistic), apart(9, 100));
  }
}

// All tables for `dims` dimensions: [leading, distances, dims] and [leading, dims].
struct Tables {
  Tensor key_rows, query_rows, value_rows, content, position;
  Tables(Random& random, DType dtype, const Dims& leading, int64_t distances, int64_t dims)
      : key_rows(random_normal(random, dtype, with(leading, {distances, dims}))),
        query_rows(random_normal(random, dtype, with(leading, {distances, dims}))),
        value_rows(random_normal(random, dtype, with(leading, {distances, dims}))),
        content(random_normal(random, dtype, with(leading, {dims}))),
        position(random_normal(random, dtype, with(leading, {dims}))) {}

  RelativePositions all() const {
    RelativePositions r;
    r.key_rows = key_rows, r.query_rows = query_rows, r.value_rows = value_rows;
    r.content_bias = content, r.position_bias = position;
    return r;
  }
  RelativePositions of_head(int64_t h) const {
    RelativePositions r;
    r.key_rows = key_rows.view().slice(0, h, h + 1),
    r.query_rows = query_rows.view().slice(0, h, h + 1);
    r.value_rows = value_rows.view().slice(0, h, h + 1),
    r.content_bias = content.view().slice(0, h, h + 1);
    r.position_bias = position.view().slice(0, h, h + 1);
    return r;
  }

 private:
  static Dims with(Dims leading, std::initializer_list<int64_t> behind) {
    leading.insert(leading.end(), behind);
    return leading;
  }
};

// Only distances matter: m additional masked keys and queries in front change no result of the
// others.
TEST(Relative, moves_with_both_positions) {
  Random random(6);
  constexpr int64_t kMore = 37, kLen = 70, kDims = 8;
  const OneHead in(random, kLen + kMore, kLen + kMore, kDims);
  const Tables tables(random, DType::f64, {}, 21, kDims);
  const auto behind = [&](const Tensor& t) {
    Dims rows;
    for (int64_t i = kMore; i < kLen + kMore; ++i) rows.push_back(i);
    return taken(t, 0, rows);
  };
  AttentionOptions options;
  options.relative = tables.all();
  const AttentionResult alone =
      scaled_dot_product_attention(behind(in.query), behind(in.key), behind(in.value), options);
  const rapt::Prefix prefix(kMore);
  const rapt::Not others(&prefix);
  options.masks = {&others};
  const AttentionResult moved = scaled_dot_product_attention(in.query, in.key, in.value, options);
  EXPECT_LE(largest_difference(behind(moved.output), alone.output), apart(kDims, kLen));
  EXPECT_LE(largest_difference(behind(moved.statistic), alone.statistic), apart(kDims, kLen));
}

// Heads with tables and keys of their own, in groups: each has the bits of a call of its own.
TEST(Relative, heads_have_the_bits_of_their_own_call) {
  Random random(7);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const Tensor query = random_normal(random, dtype, {4, 53, 10}),
                 key = random_normal(random, dtype, {2, 131, 10}),
                 value = random_normal(random, dtype, {2, 131, 10});
    const Tables tables(random, dtype, {4}, 33, 10);
    AttentionOptions options;
    options.relative = tables.all();
    const AttentionResult all = scaled_dot_product_attention(query, key, value, options);
    for (int64_t h = 0; h < 4; ++h) {
      options.relative = tables.of_head(h);
      const AttentionResult one = scaled_dot_product_attention(
          query.view().slice(0, h, h + 1), key.view().slice(0, h / 2, h / 2 + 1),
          value.view().slice(0, h / 2, h / 2 + 1), options);
      EXPECT_TRUE(same_bits(one.output, all.output.view().slice(0, h, h + 1)))
          << name_of(dtype) << h;
      EXPECT_TRUE(same_bits(one.statistic, all.statistic.view().slice(0, h, h + 1))) << h;
    }
  }
}

const char* const kLines[] = {
    "h2q70k150d8:relative=keys+values(17):seed=1",
    "b2h4/2q70k150d8v5:bf16:mask=causal:relative=keys[]+values[2,1](9,center=2):seed=2",
    "h2q300k333d16:relative=keys+content[]+position(333,center=332,bottom-right):mask=causal("
    "bottom-"
    "right):seed=3",
    "h2q130k130d12:f16:relative=keys+queries(64,center=31,log=8..32):score=softcap(20):seed=4",
    "h3q200k90d7v3:f64:dropout=0.2,5:packed=4:relative=keys+queries+values+content+position(33):"
    "seed="
    "5",
    "q65k257d4:norm=entmax15:relative=keys+values(5):bias:seed=6",
    "q256k700d64:relative=values(9,log=2..28):seed=7",
    "h2q304k700d32:relative=values(3,bottom-right):seed=8",
};

TEST(Relative, bits_do_not_depend_on_threads_or_strides) {
  for (const char* line : kLines) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    AttentionOptions options = c.options;
    options.received = true;
    const AttentionResult alone =
        scaled_dot_product_attention(c.query, c.key, c.value, options, {.threads = 1});
    for (int threads = 1; threads <= 8; ++threads) {
      Threads executor(threads);
      Context context;
      context.executor = &executor;
      const AttentionResult got =
          scaled_dot_product_attention(c.query, c.key, c.value, options, context);
      EXPECT_TRUE(same_results(got, alone)) << threads;
      EXPECT_TRUE(same_bits(got.received, alone.received)) << threads;
    }
    for (int layout = 0; layout < kLayouts; ++layout) {
      RelativePositions& r = options.relative;
      const RelativePositions dense = c.options.relative;
      const auto spread = [&](const TensorView& t) {
        return Strided(t, static_cast<Layout>(layout));
      };
      const Strided keys = spread(dense.key_rows), queries = spread(dense.query_rows),
                    values = spread(dense.value_rows), content = spread(dense.content_bias),
                    position = spread(dense.position_bias);
      r.key_rows = keys, r.query_rows = queries, r.value_rows = values;
      r.content_bias = content, r.position_bias = position;
      EXPECT_TRUE(
          same_results(scaled_dot_product_attention(c.query, c.key, c.value, options), alone))
          << check::kLayoutNames[layout];
    }
  }
}

// A table that repeats one row by a stride of 0 has the bits of one that holds it as often.
TEST(Relative, a_stride_of_0_repeats) {
  Random random(8);
  const OneHead in(random, 20, 40, 6);
  const Tensor row = random_normal(random, DType::f64, {1, 6}),
               repeated = taken(row, 0, Dims(5, 0));
  TensorView by_stride = row;
  by_stride.shape[0] = 5, by_stride.strides[0] = 0;
  AttentionOptions options;
  options.relative.key_rows = options.relative.value_rows = repeated;
  const AttentionResult expected =
      scaled_dot_product_attention(in.query, in.key, in.value, options);
  options.relative.key_rows = options.relative.value_rows = by_stride;
  EXPECT_TRUE(
      same_results(scaled_dot_product_attention(in.query, in.key, in.value, options), expected));
}

// Rows of weights in any order are those of all.
TEST(Relative, chosen_rows_of_weights) {
  for (const char* line : kLines) {
    const Case c(parse_descriptor(line));
    if (c.descriptor.packed > 0) continue;
    SCOPED_TRACE(line);
    AttentionOptions options = c.options;
    for (const rapt::WeightsStage stage :
         {rapt::WeightsStage::weights, rapt::WeightsStage::scores}) {
      options.weights.emplace().stage = stage;
      const AttentionResult all = scaled_dot_product_attention(c.query, c.key, c.value, options);
      const Dims rows{61, 3, 60, 3, 0, 17};
      options.weights->rows = rows;
      const AttentionResult some = scaled_dot_product_attention(c.query, c.key, c.value, options);
      EXPECT_TRUE(same_bits(some.weights, taken(all.weights, -2, rows)));
      EXPECT_TRUE(same_bits(some.output, all.output));
    }
  }
}

// The sequences of a packed call have the bits of calls of their own.
TEST(Relative, packed_sequences_have_their_own_distances) {
  Random random(9);
  const OneHead in(random, 90, 130, 8);
  const Tables tables(random, DType::f64, {}, 25, 8);
  const Dims starts{0, 20, 20, 75, 90}, key_starts{0, 50, 60, 60, 130};
  Tensor of_queries(DType::i64, {5}), of_keys(DType::i64, {5});
  std::ranges::copy(starts, of_queries.values<int64_t>().begin());
  std::ranges::copy(key_starts, of_keys.values<int64_t>().begin());
  for (const Anchor anchor : {Anchor::top_left, Anchor::bottom_right}) {
    AttentionOptions options;
    options.relative = tables.all();
    options.relative.anchor = anchor;
    AttentionOptions packed = options;
    packed.packed = {of_queries, of_keys};
    const AttentionResult all = scaled_dot_product_attention(in.query, in.key, in.value, packed);
    for (size_t s = 0; s < 4; ++s) {
      const auto part = [&](const TensorView& t, const Dims& of) {
        return t.slice(0, of[s], of[s + 1]);
      };
      const AttentionResult one = scaled_dot_product_attention(
          part(in.query, starts), part(in.key, key_starts), part(in.value, key_starts), options);
      EXPECT_TRUE(same_bits(one.output, part(all.output, starts))) << s;
      EXPECT_TRUE(same_bits(one.statistic, part(all.statistic, starts))) << s;
    }
  }
}

// Table rows that no unmasked pair reads may be NaN; a NaN in other rows propagates exactly where
// it is read.
TEST(Relative, nan_in_rows) {
  Random random(10);
  constexpr int64_t kLen = 140, kDims = 8, kDistances = 9, kCenter = 4;
  const Tensor query = random_normal(random, DType::f32, {kLen, kDims}),
               key = random_normal(random, DType::f32, {kLen, kDims}),
               value = random_normal(random, DType::f32, {kLen, kDims});
  const Tables clean(random, DType::f32, {}, kDistances, kDims);
  const auto spoilt = [&](const Tensor& t, auto is_bad) {
    return mapped(t, [&](double x, auto i) { return is_bad(i[0]) ? std::nan("") : x; });
  };
  const rapt::Causal causal;
  const rapt::Window near(2, 0);
  const rapt::Mask* const masks[] = {&causal, &near};
  for (const rapt::Mask* mask : masks) {
    AttentionOptions options;
    options.masks = {mask};
    options.relative = clean.all();
    const AttentionResult expected = scaled_dot_product_attention(query, key, value, options);
    const auto unread = [&](int64_t row) {
      return row > kCenter || (mask == &near && row < kCenter - 2);
    };
    const Tensor key_rows = spoilt(clean.key_rows, unread),
                 query_rows = spoilt(clean.query_rows, unread),
                 value_rows = spoilt(clean.value_rows, unread);
    options.relative.key_rows = key_rows;
    options.relative.query_rows = query_rows;
    options.relative.value_rows = value_rows;
    EXPECT_TRUE(same_results(scaled_dot_product_attention(query, key, value, options), expected));

    // Row center - 2 is read by every query but the first two.
    const auto read = [](int64_t row) { return row == kCenter - 2; };
    using Member = TensorView RelativePositions::*;
    const std::pair<Member, const Tensor*> tables[] = {
        {&RelativePositions::key_rows, &clean.key_rows},
        {&RelativePositions::query_rows, &clean.query_rows},
        {&RelativePositions::value_rows, &clean.value_rows}};
    for (const auto& [member, table] : tables) {
      const Tensor bad = spoilt(*table, read);
      options.relative = clean.all();
      options.relative.*member = bad;
      const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
      for (int64_t i = 0; i < kLen; ++i) EXPECT_EQ(std::isnan(at(got.output, i, 0)), i >= 2) << i;
    }
  }
}

// A NaN in any row of a table shows where that row is read and nowhere else, bit by bit: a tile
// reads only the rows for its own distances.
TEST(Relative, nan_in_each_row) {
  Random random(12);
  constexpr int64_t kQueries = 70, kKeys = 210, kDims = 8, kDistances = 101, kCenter = 20;
  const Tensor query = random_normal(random, DType::f32, {kQueries, kDims}),
               key = random_normal(random, DType::f32, {kKeys, kDims}),
               value = random_normal(random, DType::f32, {kKeys, kDims}),
               rows = random_normal(random, DType::f32, {kDistances, kDims});
  const rapt::Window near(30, 12);
  for (const bool some : {false, true}) {
    AttentionOptions options;
    if (some) options.masks = {&near};
    options.relative.center = kCenter;
    options.relative.value_rows = rows;
    const AttentionResult clean = scaled_dot_product_attention(query, key, value, options);
    for (int64_t bad = 0; bad < kDistances; ++bad) {
      const Tensor spoilt =
          mapped(rows, [&](double x, auto i) { return i[0] == bad ? std::nan("") : x; });
      options.relative.value_rows = spoilt;
      const AttentionResult got = scaled_dot_product_attention(query, key, value, options);
      for (int64_t i = 0; i < kQueries; ++i) {
        bool read = false;
        for (int64_t j = 0; j < kKeys; ++j)
          read |= (!some || (j - i >= -30 && j - i <= 12)) &&
                  std::clamp<int64_t>(kCenter + j - i, 0, kDistances - 1) == bad;
        if (read)
          EXPECT_TRUE(std::isnan(at(got.output, i, 0))) << bad << " " << i;
        else
          EXPECT_TRUE(same_bits(got.output.view().slice(0, i, i + 1),
                                clean.output.view().slice(0, i, i + 1)))
              << bad << " " << i;
      }
    }
  }
}

TEST(Relative, lengths_of_0) {
  Random random(11);
  for (const auto& [q_len, k_len] : {std::pair<int64_t, int64_t>{0, 5}, {5, 0}, {0, 0}}) {
    const OneHead in(random, q_len, k_len, 4);
    const Tables tables(random, DType::f64, {}, 3, 4);
    AttentionOptions options;
    options.relative = tables.all();
    const AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
    for (const double x : values_of(got.output)) EXPECT_EQ(x, 0);
    for (const double x : values_of(got.statistic)) EXPECT_EQ(x, -INFINITY);
  }
}

}  // namespace
}  // namespace laws
