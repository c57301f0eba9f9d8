// Relative positions within the products: which row a pair reads, and that Shaw's, Transformer-XL's
// and DeBERTa's formulas come out. All in f64.
#include "rapt/relative.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "rapt/mask/causal.h"
#include "support/one_head.h"

namespace laws {
namespace {

using rapt::Anchor;
using rapt::RelativePositions;

// The row that each pair reads: of a query of 1 against keys of 0, the scores are the rows, up to
// the rounding of log2(e), which they may be multiplied and divided by.
std::vector<double> rows_read(RelativePositions relative, int64_t distances, int64_t q_len,
                              int64_t k_len) {
  const Tensor query = filled(DType::f64, {q_len, 1}, 1), key = filled(DType::f64, {k_len, 1}, 0);
  Tensor rows(DType::f64, {distances, 1});
  for (int64_t r = 0; r < distances; ++r) set(rows, Dims{r, 0}, static_cast<double>(r));
  relative.key_rows = rows;
  AttentionOptions options;
  options.scale = 1;
  options.relative = relative;
  options.weights.emplace().stage = rapt::WeightsStage::scores;
  std::vector<double> read =
      values_of(scaled_dot_product_attention(query, key, key, options).weights);
  for (double& row : read) {
    const double whole = std::round(row);
    EXPECT_NEAR(row, whole, 4 * kUnit * whole);
    row = whole;
  }
  return read;
}

TEST(Relative, rows_by_hand) {
  using Rows = std::vector<double>;
  // Three table rows: keys before, at and after the query; farther keys use the outer rows.
  EXPECT_EQ(rows_read({}, 3, 3, 4), (Rows{1, 2, 2, 2,  //
                                          0, 1, 2, 2,  //
                                          0, 0, 1, 2}));
  RelativePositions relative;
  relative.anchor = Anchor::bottom_right;                    // query 0 stands at key 1
  EXPECT_EQ(rows_read(relative, 3, 3, 4), (Rows{0, 1, 2, 2,  //
                                                0, 0, 1, 2,  //
                                                0, 0, 0, 1}));
  EXPECT_EQ(rows_read(relative, 5, 4, 2), (Rows{4, 4,  // and here at key -2
                                                3, 4,  //
                                                2, 3,  //
                                                1, 2}));
  relative = {};
  relative.center = 0;
  EXPECT_EQ(rows_read(relative, 3, 2, 4), (Rows{0, 1, 2, 2,  //
                                                0, 0, 1, 2}));
  relative.center = 2;
  EXPECT_EQ(rows_read(relative, 3, 2, 4), (Rows{2, 2, 2, 2,  //
                                                1, 2, 2, 2}));
  relative.center = rapt::kMiddleRow;  // of an even number: the first of the second half
  EXPECT_EQ(rows_read(relative, 4, 2, 4), (Rows{2, 3, 3, 3,  //
                                                1, 2, 3, 3}));
  EXPECT_EQ(rows_read(relative, 1, 1, 3), (Rows{0, 0, 0}));
}

// make_log_bucket_position(d, 2 exact, max_distance) of DeBERTa v2, in f64.
TEST(Relative, log_scale_is_that_of_deberta_v2) {
  struct Scale {
    int64_t exact, max_distance;
    Dims distances, places;  // and where these are counted
  };
  const Scale scales[] = {
      {128,
       512,
       {0, 127, 128, 129, 130, 150, 200, 256, 300, 384, 400, 500, 510, 511, 512, 599},
       {0, 127, 128, 129, 130, 143, 169, 192, 207, 229, 233, 254, 255, 255, 256, 270}},
      {4,
       32,
       {0, 3, 4, 5, 7, 8, 12, 16, 17, 20, 31, 32, 33, 63, 200},
       {0, 3, 4, 5, 5, 6, 6, 7, 7, 7, 7, 8, 8, 9, 10}},
      {16,
       128,
       {15, 16, 17, 18, 19, 25, 30, 40, 64, 100, 126, 127, 128, 200},
       {15, 16, 17, 17, 18, 20, 21, 23, 27, 30, 31, 31, 32, 35}}};
  for (const Scale& scale : scales) {
    constexpr int64_t kHalf = 600;  // beyond every row that is named
    RelativePositions relative;
    relative.center = kHalf;
    relative.exact = scale.exact;
    relative.max_distance = scale.max_distance;
    const int64_t longest = scale.distances.back() + 1;
    // For one query at the last position all keys lie before it; at the first, after it.
    const std::vector<double> ahead = rows_read(relative, 2 * kHalf + 1, 1, longest);
    relative.anchor = Anchor::bottom_right;
    const std::vector<double> behind = rows_read(relative, 2 * kHalf + 1, 1, longest);
    for (size_t n = 0; n < scale.distances.size(); ++n) {
      const int64_t distance = scale.distances[n], place = scale.places[n];
      SCOPED_TRACE(testing::Message() << scale.exact << " " << distance);
      EXPECT_EQ(ahead[static_cast<size_t>(distance)], static_cast<double>(kHalf + place));
      EXPECT_EQ(behind[static_cast<size_t>(longest - 1 - distance)],
                static_cast<double>(kHalf - place));
    }
  }
  // Farther ones are clamped to the last rows.
  RelativePositions relative;
  relative.exact = 4, relative.max_distance = 32;
  EXPECT_EQ(rows_read(relative, 13, 1, 64).back(), 12);
}

// A sum of products, and of their sizes: a sum of n products is off by at most n u of these.
struct Sum {
  double value = 0, size = 0;
  void add(double a, double b) {
    value += a * b;
    size += std::abs(a * b);
  }
};

// Compares with dense loops. score(i, j) returns a Sum before the scale, of value -inf where the
// pair is masked; value(i, j, c) returns the number that the weight multiplies.
template <class Score, class Value>
void expect_dense(const OneHead& in, const AttentionOptions& options, double scale,
                  const Score& score, const Value& value) {
  const AttentionResult got = scaled_dot_product_attention(in.query, in.key, in.value, options);
  const double terms = static_cast<double>(5 * in.dims + 8);
  for (int64_t i = 0; i < in.q_len; ++i) {
    std::vector<double> weights;
    double largest_size = 0, most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < in.k_len; ++j) {
      const Sum s = score(i, j);
      weights.push_back(scale * s.value);
      if (std::isinf(s.value)) continue;
      largest_size = std::max(largest_size, std::abs(scale) * s.size);
      most = std::max(most, weights.back());
    }
    for (double& w : weights) sum += (w = std::exp(w - most));
    // Each side's scores, sum and exponentials.
    const double of_score = 2 * kUnit * terms * largest_size;
    const double of_weight = 2 * of_score + 2 * kUnit * static_cast<double>(in.k_len + 16);
    EXPECT_NEAR(get(got.statistic, Dims{i}), most + std::log(sum),
                of_weight + 16 * kUnit * std::max(1.0, std::abs(most)));
    for (int64_t c = 0; c < in.dims; ++c) {
      Sum output;
      for (int64_t j = 0; j < in.k_len; ++j)
        if (const double w = weights[static_cast<size_t>(j)] / sum; w > 0)
          output.add(w, value(i, j, c));
      EXPECT_NEAR(at(got.output, i, c), output.value, 2 * of_weight * output.size) << i << " " << c;
    }
  }
}

// Shaw et al. 2018, equations 3 to 5, with clip(j - i, -k, k).
TEST(Relative, shaw) {
  Random random(1);
  for (const int64_t k : {0, 1, 3, 8, 40}) {
    const OneHead in(random, random.between(1, 70), random.between(1, 150), random.between(1, 20));
    const Tensor key_rows = random_normal(random, DType::f64, {2 * k + 1, in.dims}),
                 value_rows = random_normal(random, DType::f64, {2 * k + 1, in.dims});
    AttentionOptions options;
    options.relative.key_rows = key_rows;
    options.relative.value_rows = value_rows;
    const auto row = [&](int64_t i, int64_t j) { return std::clamp(j - i, -k, k) + k; };
    expect_dense(
        in, options, 1 / std::sqrt(static_cast<double>(in.dims)),
        [&](int64_t i, int64_t j) {
          Sum e;
          for (int64_t d = 0; d < in.dims; ++d) {
            e.add(at(in.query, i, d), at(in.key, j, d));
            e.add(at(in.query, i, d), at(key_rows, row(i, j), d));
          }
          return e;
        },
        [&](int64_t i, int64_t j, int64_t c) {
          return at(in.value, j, c) + at(value_rows, row(i, j), c);
        });
  }
}

// Transformer-XL, as its code has it: rows of the distances k_len - 1 to 0, products of all queries
// with all rows, and a shift of row i by q_len - 1 - i: the matrix with a column of zeros before
// it, [q_len, k_len + 1], is read as [k_len + 1, q_len] without its first row.
TEST(Relative, transformer_xl_with_its_shift) {
  Random random(2);
  for (int n = 0; n < 6; ++n) {
    const int64_t q_len = random.between(1, 50), memory = random.between(0, 60);
    const OneHead in(random, q_len, q_len + memory, random.between(1, 16));
    const Tensor r = random_normal(random, DType::f64, {in.k_len, in.dims}),
                 u = random_normal(random, DType::f64, {in.dims}),
                 v = random_normal(random, DType::f64, {in.dims});
    std::vector<Sum> padded;  // [q_len, k_len + 1]
    for (int64_t i = 0; i < in.q_len; ++i) {
      padded.emplace_back();
      for (int64_t t = 0; t < in.k_len; ++t) {
        Sum sum;
        for (int64_t d = 0; d < in.dims; ++d)
          sum.add(at(in.query, i, d) + get(v, Dims{d}), at(r, t, d));
        padded.push_back(sum);
      }
    }
    const rapt::Causal causal(Anchor::bottom_right);
    AttentionOptions options;
    options.masks = {&causal};
    options.relative.key_rows = r;
    options.relative.content_bias = u;
    options.relative.position_bias = v;
    options.relative.center = in.k_len - 1;
    options.relative.anchor = Anchor::bottom_right;
    expect_dense(
        in, options, 1 / std::sqrt(static_cast<double>(in.dims)),
        [&](int64_t i, int64_t j) {
          if (j > i + memory) return Sum{-INFINITY, 0};
          Sum sum = padded[static_cast<size_t>(in.q_len + i * in.k_len + j)];
          for (int64_t d = 0; d < in.dims; ++d)
            sum.add(at(in.query, i, d) + get(u, Dims{d}), at(in.key, j, d));
          return sum;
        },
        [&](int64_t, int64_t j, int64_t c) { return at(in.value, j, c); });
  }
}

// DeBERTa's disentangled attention, as its code gathers it: by i - j + span, clamped to
// [0, 2 span - 1]; our rows are those in reverse.
TEST(Relative, deberta_with_its_gather) {
  Random random(3);
  for (const int64_t span : {1, 4, 9, 64}) {
    const int64_t n = random.between(1, 90);
    const OneHead in(random, n, n, random.between(1, 16));
    const Tensor pos_key = random_normal(random, DType::f64, {2 * span, in.dims}),
                 pos_query = random_normal(random, DType::f64, {2 * span, in.dims});
    const auto reversed = [&](const Tensor& rows) {
      return mapped(rows, [&](double, auto i) { return at(rows, 2 * span - 1 - i[0], i[1]); });
    };
    const Tensor key_rows = reversed(pos_key), query_rows = reversed(pos_query);
    const double scale = 1 / std::sqrt(3 * static_cast<double>(in.dims));
    AttentionOptions options;
    options.scale = scale;
    options.relative.key_rows = key_rows;
    options.relative.query_rows = query_rows;
    options.relative.center = span - 1;
    expect_dense(
        in, options, scale,
        [&](int64_t i, int64_t j) {
          const int64_t c2p = std::clamp<int64_t>((i - j) + span, 0, 2 * span - 1),
                        p2c = std::clamp<int64_t>(-(j - i) + span, 0, 2 * span - 1);
          Sum sum;
          for (int64_t d = 0; d < in.dims; ++d) {
            sum.add(at(in.query, i, d), at(in.key, j, d));
            sum.add(at(in.query, i, d), at(pos_key, c2p, d));
            sum.add(at(in.key, j, d), at(pos_query, p2c, d));
          }
          return sum;
        },
        [&](int64_t, int64_t j, int64_t c) { return at(in.value, j, c); });
  }
}

}  // namespace
}  // namespace laws
