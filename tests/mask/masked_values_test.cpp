// NaN and Inf: masked ones change no bit, unmasked ones always propagate.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "check/tolerance/tolerance.h"
#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "support/call.h"

namespace laws {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Row {
  std::vector<double> output;
  double lse;
};

Row row_of(const AttentionResult& r, int64_t i) {
  Row row;
  for (int64_t d = 0; d < r.output.dim(-1); ++d) row.output.push_back(get(r.output, Dims{i, d}));
  row.lse = get(r.statistic, Dims{i});
  return row;
}

bool any_nonfinite(const std::vector<double>& values) {
  return std::any_of(values.begin(), values.end(), [](double x) { return !std::isfinite(x); });
}

// PyTorch #101967: NaN in a masked key or value leaked as 0 * NaN. Also tested where another row of
// the same tile attends to that key: then only that row may be NaN.
TEST(MaskedValues, reg_masked_nan_no_leak) {
  Wanted wanted = unmasked();
  wanted.leading = wanted.empty = false;
  for_problems(120, wanted, [](const Case& c, Random& random) {
    const Descriptor& p = c.descriptor;
    Tensor allowed(DType::boolean, {p.q_len, p.k_len});
    const double density = random.pick({0.1, 0.5, 0.95});
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(density)); });
    const int64_t bad = random.between(0, p.k_len - 1);
    const bool in_key = random.chance(0.5), by_bias = random.chance(0.3);
    const double hostile = random.pick({kNan, kInfinity, -kInfinity});
    const auto spoilt = [&](const Tensor& t) {
      return mapped(t, [&](double x, auto index) { return index[0] == bad ? hostile : x; });
    };
    const rapt::Boolean mask(allowed);
    const rapt::Mask* masks[] = {&mask};
    const Tensor bias = mapped(filled(p.dtype, {p.q_len, p.k_len}, 0), [&](double, auto i) {
      return get(allowed, i) != 0 ? 0 : -kInfinity;
    });
    AttentionOptions options = c.options;
    if (by_bias)
      options.bias = bias;
    else
      options.masks = masks;
    const AttentionResult clean = scaled_dot_product_attention(c.query, c.key, c.value, options);
    const AttentionResult got =
        scaled_dot_product_attention(c.query, in_key ? spoilt(c.key) : Tensor::copy_of(c.key),
                                     in_key ? Tensor::copy_of(c.value) : spoilt(c.value), options);
    for (int64_t i = 0; i < p.q_len; ++i) {
      if (get(allowed, Dims{i, bad}) == 0) {
        const Dims one{i};
        EXPECT_TRUE(same_bits(taken(got.output, 0, one), taken(clean.output, 0, one)))
            << (in_key ? "key " : "value ") << bad << " = " << hostile
            << (by_bias ? " by bias" : "");
        EXPECT_TRUE(same_bits(taken(got.statistic, 0, one), taken(clean.statistic, 0, one)));
      }
    }
  });
}

// PyTorch #141128: NaN inputs became zeros.
TEST(MaskedValues, reg_nan_propagates) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t k_len : {1, 7, 64, 130})
      for (const int64_t d : {1, 8, 33}) {
        Random random(base_seed());
        const Tensor clean = random_normal(random, dtype, {k_len, d});
        const Tensor query = random_normal(random, dtype, {9, d});
        const int64_t bad = random.between(0, k_len - 1);
        for (const double hostile : {kNan, kInfinity, -kInfinity}) {
          const auto spoil = [&](const Tensor& t, int64_t row, int64_t column) {
            return mapped(
                t, [&](double x, auto i) { return i[0] == row && i[1] == column ? hostile : x; });
          };
          SCOPED_TRACE(std::to_string(k_len) + " keys, d = " + std::to_string(d) + ", value " +
                       std::to_string(hostile));
          // In a value: its column shows it, in every row; the others do not.
          const AttentionResult by_value =
              scaled_dot_product_attention(query, clean, spoil(clean, bad, d - 1));
          for (int64_t i = 0; i < 9; ++i) {
            const Row row = row_of(by_value, i);
            EXPECT_FALSE(std::isfinite(row.output.back()));
            EXPECT_TRUE(std::isfinite(row.lse));
            if (d > 1) {
              EXPECT_TRUE(std::isfinite(row.output[0]));
            }
          }
          // In a query: its row, and no other.
          const AttentionResult by_query =
              scaled_dot_product_attention(spoil(query, 4, d / 2), clean, clean);
          if (std::isnan(hostile)) {
            for (const double x : row_of(by_query, 4).output) EXPECT_TRUE(std::isnan(x));
            EXPECT_TRUE(std::isnan(row_of(by_query, 4).lse));
          }
          EXPECT_FALSE(any_nonfinite(row_of(by_query, 3).output));
          EXPECT_FALSE(any_nonfinite(row_of(by_query, 5).output));
          // In a key: every row that attends to it.
          const AttentionResult by_key =
              scaled_dot_product_attention(query, spoil(clean, bad, d / 2), clean);
          for (int64_t i = 0; std::isnan(hostile) && i < 9; ++i)
            for (const double x : row_of(by_key, i).output) EXPECT_TRUE(std::isnan(x));
          // In the bias, at one pair: NaN and +Inf spoil the row, -Inf excludes the pair.
          Tensor bias = filled(dtype, {9, k_len}, 0);
          set(bias, Dims{4, bad}, hostile);
          AttentionOptions options;
          options.bias = bias;
          const AttentionResult by_bias =
              scaled_dot_product_attention(query, clean, clean, options);
          EXPECT_FALSE(any_nonfinite(row_of(by_bias, 3).output));
          for (const double x : row_of(by_bias, 4).output)
            EXPECT_EQ(std::isnan(x), hostile != -kInfinity);
        }
      }
}

// A NaN of any bits: an addition to those of some would make a number of them.
TEST(MaskedValues, NanOfAnyBits) {
  constexpr int64_t kQueries = 40, kKeys = 130;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const uint32_t bits : {0x7FC00000u, 0x7FFFFFFFu, 0xFFFFFFFFu, 0x7FFF8000u, 0x7F800001u}) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << std::hex << bits);
      Random random(base_seed());
      const Tensor query = random_normal(random, dtype, {kQueries, 8}),
                   key = random_normal(random, dtype, {kKeys, 8});
      Tensor bias = filled(DType::f32, {kQueries, kKeys}, 0);
      AttentionOptions options;
      options.bias = bias;
      const AttentionResult clean = scaled_dot_product_attention(query, key, key, options);
      const int64_t bad = random.between(0, kQueries - 1);
      std::memcpy(
          static_cast<float*>(bias.view().data) + bad * kKeys + random.between(0, kKeys - 1), &bits,
          sizeof bits);
      const AttentionResult got = scaled_dot_product_attention(query, key, key, options);
      for (int64_t i = 0; i < kQueries; ++i) {
        const Dims one{i};
        if (i != bad) {
          EXPECT_TRUE(same_bits(taken(got.output, 0, one), taken(clean.output, 0, one)));
          continue;
        }
        for (const double x : row_of(got, i).output) EXPECT_TRUE(std::isnan(x));
        EXPECT_TRUE(std::isnan(row_of(got, i).lse));
      }
    }
}

// For NaN and Inf anywhere, rapt's results are finite exactly where those of the plain formulas
// are.
TEST(MaskedValues, AgreeWithTheFormulas) {
  Wanted wanted;
  wanted.max_work = 3e5;
  for_problems(200, wanted, [](const Case& c, Random& random) {
    Tensor query = Tensor::copy_of(c.query), key = Tensor::copy_of(c.key),
           value = Tensor::copy_of(c.value);
    for (const Tensor* t : {&query, &key, &value}) {
      if (t->count() == 0 || random.chance(0.4)) continue;
      for (int64_t spoils = random.between(1, 3); spoils > 0; --spoils) {
        Dims index;
        for (const int64_t length : t->dims()) index.push_back(random.between(0, length - 1));
        set(*t, index, random.pick({kNan, kInfinity, -kInfinity}));
      }
    }
    check::Problem problem = c.for_reference();
    problem.query = query;
    problem.key = key;
    problem.value = value;
    const Expectations expected = expectations(problem);
    const AttentionResult got = scaled_dot_product_attention(query, key, value, c.options);
    // Where a score is infinite, the plain loop and the truth may differ in kind (a weight of 0 or
    // one of 1e-200 times Inf); met_by() then asks for "not finite" only.
    EXPECT_TRUE(met_by(expected.output, values_of(got.output), "output"));
  });
}

// PyTorch #103963 and others: NaN, zero or the mean, by backend. Here: zeros, -inf, zeros.
TEST(MaskedValues, reg_fully_masked_row) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t n : {1, 5, 16, 65, 200}) {
      Random random(base_seed());
      const Tensor x = random_normal(random, dtype, {n, 8});
      const int64_t empty = random.between(0, n - 1);
      Tensor allowed = filled(DType::boolean, {n, n}, 1);
      Tensor bias = filled(dtype, {n, n}, 0);
      for (int64_t j = 0; j < n; ++j) {
        set(allowed, Dims{empty, j}, 0);
        set(bias, Dims{empty, j}, -kInfinity);
      }
      const rapt::Boolean mask(allowed);
      const rapt::Mask* masks[] = {&mask};
      for (const bool by_bias : {false, true}) {
        AttentionOptions options;
        if (by_bias)
          options.bias = bias;
        else
          options.masks = masks;
        options.weights.emplace();
        const AttentionResult got = scaled_dot_product_attention(x, x, x, options);
        for (int64_t i = 0; i < n; ++i) {
          const bool none = i == empty;
          EXPECT_EQ(std::isfinite(get(got.statistic, Dims{i})), !none);
          if (!none) continue;
          EXPECT_EQ(get(got.statistic, Dims{i}), -kInfinity);
          for (int64_t d = 0; d < 8; ++d) {
            EXPECT_EQ(get(got.output, Dims{i, d}), 0);
            EXPECT_FALSE(std::signbit(get(got.output, Dims{i, d})));
          }
          for (int64_t j = 0; j < n; ++j) EXPECT_EQ(get(got.weights, Dims{i, j}), 0);
        }
      }
    }
}

// A row with no key at all, although its query and every key is NaN.
TEST(MaskedValues, NothingVisibleOfNan) {
  const Tensor x = filled(DType::f32, {20, 8}, kNan);
  const rapt::Causal mask(rapt::Anchor::top_left, -100);
  const rapt::Mask* masks[] = {&mask};
  AttentionOptions options;
  options.masks = masks;
  options.weights.emplace();
  const AttentionResult got = scaled_dot_product_attention(x, x, x, options);
  EXPECT_TRUE(same_bits(got.output, filled(DType::f32, {20, 8}, 0)));
  EXPECT_TRUE(same_bits(got.statistic, filled(DType::f32, {20}, -kInfinity)));
  EXPECT_TRUE(same_bits(got.weights, filled(DType::f32, {20, 20}, 0)));
}

// Not masked, but every score is -inf: the formulas divide 0 by 0, and so does the library. (A row
// whose keys are all masked gives 0.) A statistic of -inf would be that of a row without keys,
// which has no gradients.
TEST(MaskedValues, AllScoresMinusInfinity) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const int64_t k_len : {1, 20, 64, 150}) {
      const Tensor query = filled(dtype, {3, 4}, 1);
      const Tensor key = filled(dtype, {k_len, 4}, -kInfinity);
      const Tensor value = filled(dtype, {k_len, 2}, 1);
      const AttentionResult got = scaled_dot_product_attention(query, key, value);
      for (const double x : values_of(got.output)) EXPECT_TRUE(std::isnan(x)) << x;
      for (const double x : values_of(got.statistic)) EXPECT_TRUE(std::isnan(x)) << x;
    }
}

// The weights too: a masked NaN gives weight 0, a visible one spoils its row.
TEST(MaskedValues, WeightsOfMaskedNan) {
  Random random(base_seed());
  const Tensor clean = random_normal(random, DType::f32, {40, 8});
  const Tensor key = mapped(clean, [](double x, auto i) { return i[0] == 20 ? kNan : x; });
  const rapt::Causal mask;
  const rapt::Mask* masks[] = {&mask};
  AttentionOptions options;
  options.masks = masks;
  options.weights.emplace();
  const AttentionResult got = scaled_dot_product_attention(clean, key, clean, options);
  const AttentionResult expected = scaled_dot_product_attention(clean, clean, clean, options);
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 40; ++j) {
      const double weight = get(got.weights, Dims{i, j});
      SCOPED_TRACE(to_string(Dims{i, j}));
      if (i < 20) {
        EXPECT_EQ(weight, get(expected.weights, Dims{i, j}));
      } else if (j <= i) {
        EXPECT_TRUE(std::isnan(weight));
      } else {
        EXPECT_EQ(weight, 0);
      }
    }
}

}  // namespace
}  // namespace laws
