// Sparsemax, entmax15 and alpha-entmax against their definition: the threshold found by sorting (by
// bisection for any alpha) and the dense Jacobian, in float64, written apart from the library.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "laws/call.h"
#include "laws/expect_error.h"
#include "rapt/backward.h"
#include "rapt/catalogue.h"
#include "rapt/mask/boolean.h"
#include "rapt/tangents.h"

namespace laws {
namespace {

using rapt::BackwardInputs;
using rapt::BackwardRequest;
using rapt::ErrorCode;
using Row = std::vector<double>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Member {  // of the family
  const char* text;
  double alpha;
};
constexpr Member kMembers[] = {{"sparsemax", 2},      {"entmax15", 1.5},      {"entmax(2)", 2},
                               {"entmax", 1.5},       {"entmax(1.25)", 1.25}, {"entmax(1.7)", 1.7},
                               {"entmax(1.05)", 1.05}};

// tau of x in descending order: of all k, the largest for which the tau of the first k is at most
// x_k (Martins & Astudillo 2016, algorithm 1; Peters et al. 2019, algorithm 2).
double threshold_by_sorting(Row x, bool squares) {
  std::sort(x.begin(), x.end(), std::greater<>());
  double tau = -kInfinity, sum = 0, sum_of_squares = 0;
  for (size_t k = 1; k <= x.size(); ++k) {
    const double value = x[k - 1], n = static_cast<double>(k);
    sum += value, sum_of_squares += value * value;
    double candidate = (sum - 1) / n;
    if (squares) {
      const double mean = sum / n, spread = sum_of_squares - n * mean * mean;
      candidate = mean - std::sqrt(std::max(0.0, (1 - spread) / n));
    }
    if (candidate <= value) tau = candidate;
  }
  return tau;
}

double threshold_by_bisection(const Row& x, double power) {
  double low = *std::max_element(x.begin(), x.end()) - 1, high = low + 1;
  for (int step = 0; step < 200; ++step) {
    const double middle = (low + high) / 2;
    double sum = 0;
    for (const double value : x) sum += std::pow(std::max(0.0, value - middle), power);
    (sum >= 1 ? low : high) = middle;
  }
  return low;
}

struct RowWeights {
  Row weights, slopes;  // p and p^(2 - alpha), 0 off the support
  double tau = -kInfinity;
};

RowWeights row_weights(const Row& scores, const std::vector<bool>& allowed, double alpha) {
  Row x;
  for (size_t j = 0; j < scores.size(); ++j)
    if (allowed[j]) x.push_back((alpha - 1) * scores[j]);
  RowWeights r{Row(scores.size()), Row(scores.size())};
  if (x.empty()) return r;
  // Shifted, so that the squares of large scores cancel nothing.
  const double top = *std::max_element(x.begin(), x.end());
  for (double& value : x) value -= top;
  const double tau = alpha == 2 || alpha == 1.5 ? threshold_by_sorting(x, alpha == 1.5)
                                                : threshold_by_bisection(x, 1 / (alpha - 1));
  r.tau = top + tau;
  for (size_t j = 0; j < scores.size(); ++j) {
    const double d = (alpha - 1) * scores[j] - top - tau;
    if (!allowed[j] || d <= 0) continue;
    r.weights[j] = std::pow(d, 1 / (alpha - 1));
    r.slopes[j] = std::pow(r.weights[j], 2 - alpha);
  }
  return r;
}

struct Problem {
  DType dtype;
  int64_t q_len, k_len, head_dim, value_dim;
  double scale = 1;
  Tensor query, key, value, allowed, d_output, d_statistic;

  // Scores have a standard deviation of `spread`.
  Problem(Random& random, DType type, int64_t q, int64_t k, double spread, double density,
          int64_t d = 6, int64_t v = 5)
      : dtype(type),
        q_len(q),
        k_len(k),
        head_dim(d),
        value_dim(v),
        scale(spread / std::sqrt(static_cast<double>(d))),
        query(random_normal(random, type, {q, d})),
        key(random_normal(random, type, {k, d})),
        value(random_normal(random, type, {k, v})),
        allowed(DType::boolean, {q, k}),
        d_output(random_normal(random, type, {q, v})),
        d_statistic(random_normal(random, type == DType::f64 ? type : DType::f32, {q})) {
    for_each_index(allowed.dims(), [&](auto i) { set(allowed, i, random.chance(density)); });
  }

  Row scores(int64_t i) const {
    Row s;
    for (int64_t j = 0; j < k_len; ++j) {
      double sum = 0;
      for (int64_t d = 0; d < head_dim; ++d) sum += get(query, Dims{i, d}) * get(key, Dims{j, d});
      s.push_back(scale * sum);
    }
    return s;
  }
  RowWeights weights(int64_t i, double alpha) const {
    std::vector<bool> seen;
    for (int64_t j = 0; j < k_len; ++j) seen.push_back(get(allowed, Dims{i, j}) != 0);
    return row_weights(scores(i), seen, alpha);
  }
};

struct Results {
  AttentionResult forward;
  rapt::Gradients gradients;
};

Results results_of(const Problem& p, const char* normalizer, bool weights = true,
                   rapt::BackwardPasses passes = rapt::BackwardPasses::one, int threads = 0) {
  const rapt::Boolean mask(p.allowed);
  const rapt::MadeNormalizer made = rapt::make_normalizer(normalizer);
  AttentionOptions options;
  options.normalizer = made.ref;
  options.masks = {&mask};
  options.scale = p.scale;
  if (weights) options.weights.emplace(), options.received = true;
  Context context;
  context.threads = threads;
  Results r;
  r.forward = scaled_dot_product_attention(p.query, p.key, p.value, options, context);
  BackwardInputs inputs;
  inputs.state = r.forward.state();
  inputs.d_output = p.d_output;
  inputs.d_statistic = p.d_statistic;
  BackwardRequest request;
  request.passes = passes;
  request.scale = true;
  r.gradients = scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs,
                                                      request, context);
  return r;
}

// What roundings of the scores, of `unit` each, can do to a row: weights move at most as far as
// scores do (the Jacobian diag(u) - u u^T / sum u with u <= 1 has a norm of at most 1), each
// by its own rounding besides, and the power 1 / (alpha - 1) magnifies those of its argument.
double tolerance_of(const Problem& p, double alpha, double unit) {
  double largest = 0;
  for (int64_t i = 0; i < p.q_len; ++i)
    for (const double s : p.scores(i)) largest = std::max(largest, std::abs(s));
  const double of_scores = unit * (static_cast<double>(p.head_dim) + 4) * (largest + 1);
  return 4 * (of_scores + unit * (4 + 8 / (alpha - 1)));
}

double unit_of(DType dtype) { return dtype == DType::f64 ? 0x1p-52 : 0x1p-23; }

void expect_forward(const Problem& p, const Member& member, const AttentionResult& got) {
  const double tolerance = tolerance_of(p, member.alpha, unit_of(p.dtype));
  const double of_output = p.dtype == DType::bf16 ? 0x1p-8 : p.dtype == DType::f16 ? 0x1p-10 : 0;
  Row received(static_cast<size_t>(p.k_len));
  for (int64_t i = 0; i < p.q_len; ++i) {
    const RowWeights expected = p.weights(i, member.alpha);
    const double tau = get(got.statistic, Dims{i});
    if (expected.tau == -kInfinity) {
      EXPECT_EQ(tau, -kInfinity);
    } else {
      ASSERT_NEAR(tau, expected.tau, 4 * tolerance) << "tau of " << i;
    }
    double sum = 0;
    for (int64_t j = 0; j < p.k_len; ++j) {
      const double weight = get(got.weights, Dims{i, j}), right = expected.weights[j];
      ASSERT_NEAR(weight, right, tolerance) << "weight " << i << ", " << j;
      if (get(p.allowed, Dims{i, j}) == 0) {
        ASSERT_EQ(weight, 0);
      }
      sum += weight;
      received[static_cast<size_t>(j)] += right;
    }
    if (expected.tau > -kInfinity) {
      ASSERT_NEAR(sum, 1, tolerance);
    }
    for (int64_t d = 0; d < p.value_dim; ++d) {
      double output = 0, size = 0;
      for (int64_t j = 0; j < p.k_len; ++j) {
        const double value = get(p.value, Dims{j, d});
        output += expected.weights[j] * value;
        size += (expected.weights[j] > 0) * std::abs(value);
      }
      ASSERT_NEAR(get(got.output, Dims{i, d}), output,
                  tolerance * (size + 1) + of_output * std::abs(output))
          << "output " << i << ", " << d;
    }
  }
  for (int64_t j = 0; j < p.k_len; ++j)
    ASSERT_NEAR(get(got.received, Dims{j}), received[static_cast<size_t>(j)],
                tolerance * static_cast<double>(p.q_len))
        << "received " << j;
}

// By the dense Jacobian of each row.
void expect_gradients(const Problem& p, const Member& member, const rapt::Gradients& got,
                      double tolerance) {
  const auto zeros = [](int64_t rows, int64_t columns) {
    return std::vector<Row>(static_cast<size_t>(rows), Row(static_cast<size_t>(columns)));
  };
  auto d_query = zeros(p.q_len, p.head_dim), d_key = zeros(p.k_len, p.head_dim),
       d_value = zeros(p.k_len, p.value_dim);
  double d_scale = 0;
  for (int64_t i = 0; i < p.q_len; ++i) {
    const RowWeights row = p.weights(i, member.alpha);
    Row d_weights(static_cast<size_t>(p.k_len));
    double sum = 0, mean = 0;
    for (int64_t j = 0; j < p.k_len; ++j) {
      const auto at = static_cast<size_t>(j);
      for (int64_t d = 0; d < p.value_dim; ++d) {
        d_weights[at] += get(p.d_output, Dims{i, d}) * get(p.value, Dims{j, d});
        d_value[at][static_cast<size_t>(d)] += row.weights[at] * get(p.d_output, Dims{i, d});
      }
      sum += row.slopes[at], mean += row.slopes[at] * d_weights[at];
    }
    if (sum == 0) continue;
    mean /= sum;
    const double d_tau = (member.alpha - 1) * get(p.d_statistic, Dims{i}) / sum;
    const Row scores = p.scores(i);
    for (int64_t j = 0; j < p.k_len; ++j) {
      const auto at = static_cast<size_t>(j);
      const double d_score = row.slopes[at] * (d_weights[at] - mean + d_tau);
      for (int64_t d = 0; d < p.head_dim; ++d) {
        d_query[static_cast<size_t>(i)][static_cast<size_t>(d)] +=
            p.scale * d_score * get(p.key, Dims{j, d});
        d_key[at][static_cast<size_t>(d)] += p.scale * d_score * get(p.query, Dims{i, d});
      }
      d_scale += d_score * scores[at] / p.scale;
    }
  }
  const auto compare = [&](const char* name, const Tensor& tensor, const std::vector<Row>& right) {
    for_each_index(tensor.dims(), [&](auto at) {
      const double expected = right[static_cast<size_t>(at[0])][static_cast<size_t>(at[1])];
      EXPECT_NEAR(get(tensor, at), expected, tolerance * (1 + std::abs(expected)))
          << name << " " << at[0] << ", " << at[1];
    });
    ASSERT_FALSE(testing::Test::HasFailure());
  };
  compare("d_query", got.d_query, d_query);
  compare("d_key", got.d_key, d_key);
  compare("d_value", got.d_value, d_value);
  ASSERT_NEAR(got.d_scale.values<double>()[0], d_scale,
              tolerance * static_cast<double>(p.q_len) * (1 + std::abs(d_scale)));
}

TEST(Entmax, IsItsDefinition) {
  Random random(base_seed());
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    for (const Member& member : kMembers)
      for (const double spread : {0.1, 1.0, 4.0})
        for (const int64_t k_len : {1, 7, 130, 700}) {
          Problem p(random, dtype, 19, k_len, spread, random.chance(0.5) ? 1 : 0.6);
          for (int64_t j = 0; j < k_len; ++j) set(p.allowed, Dims{3, j}, 0);  // without keys
          SCOPED_TRACE(testing::Message() << member.text << " " << name_of(dtype) << " spread "
                                          << spread << " k_len " << k_len);
          const Results got = results_of(p, member.text);
          expect_forward(p, member, got.forward);
          ASSERT_FALSE(testing::Test::HasFailure());
        }
}

// f64: but for roundings, of sums of at most 700 terms, the dense Jacobian. Where a weight begins,
// the slope of sparsemax jumps and that of alphas between 1.5 and 2 is steep; no score of these
// problems is that near.
TEST(Entmax, GradientsAreThoseOfTheJacobian) {
  Random random(base_seed());
  for (const Member& member : kMembers)
    for (const double spread : {0.1, 1.0, 4.0})
      for (const auto& [q_len, k_len] : {std::pair{1, 1}, {5, 40}, {70, 130}, {40, 700}}) {
        Problem p(random, DType::f64, q_len, k_len, spread, random.chance(0.5) ? 1 : 0.6);
        for (int64_t j = 0; j < k_len; ++j) set(p.allowed, Dims{0, j}, 0);
        SCOPED_TRACE(testing::Message()
                     << member.text << " spread " << spread << ", " << q_len << " x " << k_len);
        const Results got = results_of(p, member.text);
        expect_gradients(p, member, got.gradients, 1e-9);
        const Results two = results_of(p, member.text, false, rapt::BackwardPasses::two);
        ASSERT_TRUE(same_bits(two.gradients.d_query, got.gradients.d_query));
        ASSERT_TRUE(same_bits(two.gradients.d_key, got.gradients.d_key));
        ASSERT_TRUE(same_bits(two.gradients.d_value, got.gradients.d_value));
      }
}

// The Jacobian of the oracle itself, and with it the library's: central differences in f64.
TEST(Entmax, GradientsAreDifferences) {
  Random random(base_seed());
  constexpr double kStep = 1e-6;
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Problem p(random, DType::f64, 4, 23, 1.5, 0.8);
    const Results got = results_of(p, member.text);
    const auto loss = [&] {
      const Results r = results_of(p, member.text);
      double sum = 0;
      for_each_index(r.forward.output.dims(),
                     [&](auto i) { sum += get(p.d_output, i) * get(r.forward.output, i); });
      for (int64_t i = 0; i < p.q_len; ++i)
        sum += get(p.d_statistic, Dims{i}) * get(r.forward.statistic, Dims{i});
      return sum;
    };
    const auto compare = [&](const char* name, Tensor& input, const Tensor& gradient) {
      for_each_index(input.dims(), [&](auto at) {
        const double before = get(input, at);
        set(input, at, before + kStep);
        const double up = loss();
        set(input, at, before - kStep);
        const double down = loss();
        set(input, at, before);
        // Roundings of two losses over the step; the second differences are of the order of it.
        EXPECT_NEAR(get(gradient, at), (up - down) / (2 * kStep), 2e-5)
            << name << " " << at[0] << ", " << at[1];
      });
    };
    compare("d_query", p.query, got.gradients.d_query);
    compare("d_key", p.key, got.gradients.d_key);
    compare("d_value", p.value, got.gradients.d_value);
  }
}

// In f32 the products by pairs and those of whole tiles, of which the former need few weights.
TEST(Entmax, GradientsInF32) {
  Random random(base_seed());
  for (const Member& member : kMembers)
    for (const double spread : {0.3, 3.0}) {
      SCOPED_TRACE(testing::Message() << member.text << " spread " << spread);
      Problem p(random, DType::f64, 50, 260, spread, 0.9, 16, 16);
      for (Tensor* tensor : {&p.query, &p.key, &p.value, &p.d_output, &p.d_statistic}) {
        Tensor narrow(DType::f32, Dims(tensor->dims().begin(), tensor->dims().end()));
        for_each_index(narrow.dims(), [&](auto i) { set(narrow, i, get(*tensor, i)); });
        *tensor = std::move(narrow);
      }
      p.dtype = DType::f32;
      // A slope is off by a relative unit of its weight's distance from the threshold, and that by
      // the rounding of scores: 50 sums of such.
      if (member.alpha < 1.6 && member.alpha > 1.2)
        expect_gradients(p, member, results_of(p, member.text).gradients, 2e-3);
    }
}

// Scores that are nearly equal keep more keys than a short list holds.
TEST(Entmax, LongRows) {
  Random random(base_seed());
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Member& member : kMembers)
      for (const double spread : {0.0, 0.01, 0.1}) {
        SCOPED_TRACE(testing::Message() << member.text << " spread " << spread);
        Problem p(random, dtype, 37, 1500, 1, 1, 4, 3);
        for (int64_t i = 0; i < p.q_len; ++i)
          for (int64_t d = 0; d < p.head_dim; ++d)
            if (i % 3 == 0) set(p.query, Dims{i, d}, spread * get(p.query, Dims{i, d}));
        const Results got = results_of(p, member.text);
        expect_forward(p, member, got.forward);
        if (spread == 0 && member.alpha >= 1.5) {
          EXPECT_NEAR(get(got.forward.weights, Dims{0, 777}), 1.0 / 1500,
                      tolerance_of(p, member.alpha, unit_of(dtype)) / 1500);
        }
        ASSERT_FALSE(testing::Test::HasFailure());
      }
}

// A row's bits are its own, whatever its neighbours need: alone, in a batch, by more threads.
TEST(Entmax, BitsAreTheRowsOwn) {
  Random random(base_seed());
  for (const char* text : {"sparsemax", "entmax15", "entmax(1.25)"}) {
    Problem p(random, DType::f32, 230, 1300, 1, 1, 8, 9);
    for (int64_t i = 0; i < p.q_len; i += 5)
      for (int64_t d = 0; d < p.head_dim; ++d) set(p.query, Dims{i, d}, 0.01);
    const Results all = results_of(p, text, true, rapt::BackwardPasses::one, 1);
    const Results threads = results_of(p, text, true, rapt::BackwardPasses::one, 2);
    ASSERT_TRUE(same_results(threads.forward, all.forward));
    ASSERT_TRUE(same_bits(threads.gradients.d_query, all.gradients.d_query));
    ASSERT_TRUE(same_bits(threads.gradients.d_key, all.gradients.d_key));
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.scale = p.scale;
    for (const int64_t i : {0, 1, 17, 100, 229}) {
      const AttentionResult one =
          scaled_dot_product_attention(p.query.view().slice(0, i, i + 1), p.key, p.value, options);
      for (int64_t d = 0; d < p.value_dim; ++d)
        ASSERT_EQ(get(one.output, Dims{0, d}), get(all.forward.output, Dims{i, d})) << text << i;
    }
  }
}

TEST(Entmax, KnownWeights) {
  const auto weights = [](const char* text, const Row& scores) {
    const auto count = static_cast<int64_t>(scores.size());
    Tensor query = filled(DType::f64, {1, 1}, 1), key(DType::f64, {count, 1});
    for (int64_t j = 0; j < count; ++j) set(key, Dims{j, 0}, scores[static_cast<size_t>(j)]);
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.scale = 1.0;
    options.weights.emplace();
    return values_of(scaled_dot_product_attention(query, key, key, options).weights);
  };
  const auto expect = [&](const char* text, const Row& scores, const Row& expected) {
    const Row got = weights(text, scores);
    for (size_t j = 0; j < expected.size(); ++j) {
      EXPECT_NEAR(got[j], expected[j], 1e-10) << text;
      EXPECT_EQ(got[j] == 0, expected[j] == 0) << text;
    }
  };
  // Printed by the entmax package's own page and code.
  expect("sparsemax", {-2, 0, 0.5}, {0, 0.25, 0.75});
  expect("entmax15", {-2, 0, 0.5}, {0, 0.3260073637, 0.6739926363});
  expect("entmax(1.25)", {-2, 0, 0.5}, {0.0053394178, 0.3521097860, 0.6425507962});
  expect("sparsemax", {0.1, 0.2, 0.3}, {0.7 / 3, 1.0 / 3, 1.3 / 3});
  expect("entmax15", {0.1, 0.2, 0.3}, {0.2765761582, 0.3316666667, 0.3917571751});
  expect("sparsemax", {5, 5, -1}, {0.5, 0.5, 0});
  expect("sparsemax", {1e6, 1e6, 1e6 - 0.5, 0}, {0.5, 0.5, 0, 0});
  expect("entmax15", {-1e9, -1e9}, {0.5, 0.5});
}

TEST(Entmax, WithoutKeysThereIsNothing) {
  const Tensor query = filled(DType::f32, {3, 2}, 1), none(DType::f32, {0, 2});
  for (const Member& member : kMembers) {
    const rapt::MadeNormalizer made = rapt::make_normalizer(member.text);
    AttentionOptions options;
    options.normalizer = made.ref;
    AttentionResult r = scaled_dot_product_attention(query, none, none, options);
    for (const double x : values_of(r.output)) EXPECT_EQ(x, 0);
    for (const double tau : values_of(r.statistic)) EXPECT_EQ(tau, -kInfinity);
    BackwardInputs inputs;
    inputs.state = r.state();
    inputs.d_output = query;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(query, none, none, options, inputs);
    for (const double x : values_of(g.d_query)) EXPECT_EQ(x, 0);
  }
}

// A masked NaN never leaks, whatever it is in; an unmasked one of a query or key shows. A value of
// which the weight is exactly 0 is not read.
TEST(Entmax, NonFiniteNumbers) {
  Random random(base_seed());
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Problem p(random, DType::f32, 21, 300, 2, 1);
    for (int64_t i = 0; i < p.q_len; ++i) set(p.allowed, Dims{i, 77}, 0);
    const Results clean = results_of(p, member.text);
    for (const double bad : {kInfinity, kNaN}) {
      for (int64_t d = 0; d < p.head_dim; ++d) set(p.key, Dims{77, d}, bad);
      for (int64_t d = 0; d < p.value_dim; ++d) set(p.value, Dims{77, d}, bad);
      const Results masked = results_of(p, member.text);
      ASSERT_TRUE(same_results(masked.forward, clean.forward));
      ASSERT_TRUE(same_bits(masked.gradients.d_query, clean.gradients.d_query));
      ASSERT_TRUE(same_bits(masked.gradients.d_value, clean.gradients.d_value));
      for (int64_t d = 0; d < p.head_dim; ++d)
        ASSERT_EQ(get(masked.gradients.d_key, Dims{77, d}), 0);
    }
    set(p.allowed, Dims{4, 77}, 1);
    const Results shown = results_of(p, member.text);
    for (int64_t i = 0; i < p.q_len; ++i)
      ASSERT_EQ(std::isnan(get(shown.forward.output, Dims{i, 0})), i == 4) << i;
    EXPECT_TRUE(std::isnan(get(shown.gradients.d_query, Dims{4, 0})));
  }
  Problem p(random, DType::f32, 3, 200, 4, 1);
  const Results clean = results_of(p, "sparsemax");
  for (int64_t j = 0; j < p.k_len; ++j)
    if (get(clean.forward.received, Dims{j}) == 0)
      for (int64_t d = 0; d < p.value_dim; ++d) set(p.value, Dims{j, d}, kNaN);
  EXPECT_TRUE(same_results(results_of(p, "sparsemax").forward, clean.forward));
}

TEST(Entmax, DropoutDropsWeights) {
  Random random(base_seed());
  for (const char* text : {"sparsemax", "entmax15"}) {
    Problem p(random, DType::f64, 30, 300, 1, 1);
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.scale = p.scale;
    options.dropout = {0.4, 99};
    options.weights.emplace();
    AttentionResult r = scaled_dot_product_attention(p.query, p.key, p.value, options);
    Tensor kept(DType::boolean, {p.q_len, p.k_len});
    rapt::dropout_mask(options.dropout, kept);
    for (int64_t i = 0; i < p.q_len; ++i)
      for (int64_t d = 0; d < p.value_dim; ++d) {
        double sum = 0;
        for (int64_t j = 0; j < p.k_len; ++j)
          sum +=
              get(kept, Dims{i, j}) * get(r.weights, Dims{i, j}) * get(p.value, Dims{j, d}) / 0.6;
        ASSERT_NEAR(get(r.output, Dims{i, d}), sum, 1e-8);  // 0.4 is rounded to 2^-32
      }
    // The gradient: the loss is linear in the values, so the difference is exact but for roundings.
    BackwardInputs inputs;
    inputs.state = r.state();
    inputs.d_output = p.d_output;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs);
    const auto loss = [&] {
      const AttentionResult at = scaled_dot_product_attention(p.query, p.key, p.value, options);
      double sum = 0;
      for_each_index(at.output.dims(),
                     [&](auto i) { sum += get(p.d_output, i) * get(at.output, i); });
      return sum;
    };
    constexpr double kStep = 1e-6;
    for (Tensor* input : {&p.query, &p.key, &p.value})
      for (int64_t n = 0; n < 8; ++n) {
        const Dims at = {n % input->dim(0), n % input->dim(1)};
        const Tensor& gradient = input == &p.query ? g.d_query
                                 : input == &p.key ? g.d_key
                                                   : g.d_value;
        const double before = get(*input, at);
        set(*input, at, before + kStep);
        const double up = loss();
        set(*input, at, before - kStep);
        const double down = loss();
        set(*input, at, before);
        EXPECT_NEAR(get(gradient, at), (up - down) / (2 * kStep), 2e-5);
      }
  }
}

// What asks for whole tiles (a bias, gradients of it, of scores and of returned weights) finds the
// gradients that pairs alone give.
TEST(Entmax, WholeTilesGiveTheSameGradients) {
  Random random(base_seed());
  constexpr double kStep = 1e-6;
  for (const Member& member : kMembers) {
    SCOPED_TRACE(member.text);
    Problem p(random, DType::f64, 60, 150, 3, 0.9);
    const Results by_pairs = results_of(p, member.text);
    const rapt::Boolean mask(p.allowed);
    const rapt::MadeNormalizer made = rapt::make_normalizer(member.text);
    const rapt::Softcap softcap(5);
    Tensor bias = filled(DType::f64, {p.q_len, p.k_len}, 0);
    AttentionOptions options;
    options.normalizer = made.ref;
    options.masks = {&mask};
    options.scale = p.scale;
    options.bias = bias;
    BackwardInputs inputs;
    inputs.d_output = p.d_output;
    inputs.d_statistic = p.d_statistic;
    BackwardRequest request;
    request.bias = true;
    AttentionResult forward = scaled_dot_product_attention(p.query, p.key, p.value, options);
    inputs.state = forward.state();
    const rapt::Gradients whole =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs, request);
    const auto near = [&](const Tensor& got, const Tensor& expected) {
      for_each_index(got.dims(), [&](auto i) {
        ASSERT_NEAR(get(got, i), get(expected, i), 1e-10 * (1 + std::abs(get(expected, i))));
      });
    };
    near(whole.d_query, by_pairs.gradients.d_query);
    near(whole.d_key, by_pairs.gradients.d_key);
    near(whole.d_value, by_pairs.gradients.d_value);

    // By differences: with a cap, a bias of any numbers and gradients of the weights.
    bias = random_normal(random, DType::f64, {p.q_len, p.k_len});
    const Tensor d_weights = random_normal(random, DType::f64, {p.q_len, p.k_len});
    options.bias = bias;
    options.scores = {softcap};
    options.weights.emplace();
    request.score_parameters = true;
    forward = scaled_dot_product_attention(p.query, p.key, p.value, options);
    inputs.state = forward.state();
    inputs.d_weights = d_weights;
    const rapt::Gradients g =
        scaled_dot_product_attention_backward(p.query, p.key, p.value, options, inputs, request);
    const auto loss = [&] {
      const AttentionResult at = scaled_dot_product_attention(p.query, p.key, p.value, options);
      double sum = 0;
      const auto add = [&](const Tensor& gradient, const Tensor& result) {
        for_each_index(result.dims(), [&](auto i) {
          if (get(gradient, i) != 0 && std::isfinite(get(result, i)))
            sum += get(gradient, i) * get(result, i);
        });
      };
      add(p.d_output, at.output), add(p.d_statistic, at.statistic), add(d_weights, at.weights);
      return sum;
    };
    const auto compare = [&](Tensor& input, const Tensor& gradient) {
      for (int64_t n = 0; n < 6; ++n) {
        const Dims at = {(7 * n) % input.dim(0), (5 * n) % input.dim(1)};
        const double before = get(input, at);
        set(input, at, before + kStep);
        const double up = loss();
        set(input, at, before - kStep);
        const double down = loss();
        set(input, at, before);
        EXPECT_NEAR(get(gradient, at), (up - down) / (2 * kStep), 1e-4);
      }
    };
    compare(p.query, g.d_query);
    compare(p.key, g.d_key);
    compare(p.value, g.d_value);
    compare(bias, g.d_bias);
  }
}

// Packed sequences and heads that share keys are calls of their own.
TEST(Entmax, SequencesAndHeadsAreCallsOfTheirOwn) {
  Random random(base_seed());
  const rapt::MadeNormalizer made = rapt::make_normalizer("entmax15");
  AttentionOptions options;
  options.normalizer = made.ref;
  const Tensor query = random_normal(random, DType::f32, {4, 90, 8}),
               key = random_normal(random, DType::f32, {2, 90, 8}),
               value = random_normal(random, DType::f32, {2, 90, 8});
  Tensor starts(DType::i64, {4});
  const int64_t begins[] = {0, 20, 20, 90};
  for (int64_t s = 0; s < 4; ++s) starts.values<int64_t>()[static_cast<size_t>(s)] = begins[s];
  options.packed.query_starts = starts;
  const AttentionResult packed = scaled_dot_product_attention(query, key, value, options);
  options.packed = {};
  for (int64_t head = 0; head < 4; ++head)
    for (int64_t s = 0; s < 3; ++s) {
      const auto rows = [&](const Tensor& t, int64_t h) {
        return t.view().slice(0, h, h + 1).slice(1, begins[s], begins[s + 1]);
      };
      const AttentionResult alone = scaled_dot_product_attention(
          rows(query, head), rows(key, head / 2), rows(value, head / 2), options);
      for_each_index(alone.output.dims(), [&](auto i) {
        ASSERT_EQ(get(alone.output, i), get(packed.output, Dims{head, begins[s] + i[1], i[2]}));
      });
    }
}

TEST(Entmax, TopKeysAreTheLargestWeights) {
  Random random(base_seed());
  const Problem p(random, DType::f64, 20, 200, 2, 1);
  const rapt::MadeNormalizer made = rapt::make_normalizer("entmax15");
  AttentionOptions options;
  options.normalizer = made.ref;
  options.scale = p.scale;
  options.top_k = 12;
  options.weights.emplace();
  const AttentionResult r = scaled_dot_product_attention(p.query, p.key, p.value, options);
  for (int64_t i = 0; i < p.q_len; ++i)
    for (int64_t k = 0; k < 12; ++k) {
      const auto key = static_cast<int64_t>(get(r.top_keys, Dims{i, k}));
      EXPECT_EQ(get(r.top_weights, Dims{i, k}), get(r.weights, Dims{i, key}));
    }
}

TEST(Entmax, WhatItHasNotIsRefusedByName) {
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  for (const char* text : {"sparsemax", "entmax15", "entmax"}) {
    const rapt::MadeNormalizer made = rapt::make_normalizer(text);
    AttentionOptions options;
    options.normalizer = made.ref;
    AttentionResult one = scaled_dot_product_attention(t, t, t, options),
                    other = scaled_dot_product_attention(t, t, t, options);
    expect_error(ErrorCode::unsupported, {text},
                 [&] { rapt::merge(one.state(), other.state(), made.ref); });
    options.entropy = true;
    expect_error(ErrorCode::unsupported, {text},
                 [&] { scaled_dot_product_attention(t, t, t, options); });
    options.entropy = false;
    expect_error(ErrorCode::unsupported, {text},
                 [&] { rapt::attention_jvp(t, t, t, options, one.state(), {}); });
  }
}

TEST(Entmax, ByName) {
  EXPECT_STREQ(rapt::make_normalizer("entmax15").ref.declaration->name, "entmax15");
  EXPECT_STREQ(rapt::make_normalizer("sparsemax").ref.declaration->name, "sparsemax");
  expect_error(ErrorCode::argument, {"alpha", "0.5"}, [] { rapt::make_normalizer("entmax(0.5)"); });
  expect_error(ErrorCode::argument, {"alpha", "1"}, [] { rapt::make_normalizer("entmax(1)"); });
  expect_error(ErrorCode::argument, {"alpha", "3"}, [] { rapt::make_normalizer("entmax(3)"); });
  expect_error(ErrorCode::unknown_name, {"did you mean sparsemax?"},
               [] { rapt::make_normalizer("sparse_max"); });
  // What is set by hand is checked by the call.
  rapt::Entmax far(0.9);
  const Tensor t = filled(DType::f32, {2, 2}, 1);
  AttentionOptions options;
  options.normalizer = far;
  expect_error(ErrorCode::argument, {"alpha"},
               [&] { scaled_dot_product_attention(t, t, t, options); });
}

}  // namespace
}  // namespace laws
