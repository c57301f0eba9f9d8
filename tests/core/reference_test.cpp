// Compares the reference with results worked out by hand, and tests that tolerances reject wrong
// results.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "check/compare/case.h"
#include "check/compare/comparison.h"
#include "check/reference/philox.h"
#include "check/tolerance/tolerance.h"
#include "check/tolerance/two_parts.h"

namespace check {
namespace {

Captures everything(int64_t top_k) {
  Captures captures = all_weights();
  captures.entropy = captures.received = true;
  captures.top_k = top_k;
  return captures;
}

std::vector<double> doubles(const std::vector<long double>& values) {
  return {values.begin(), values.end()};
}

// One head with given scores: query 1, scale 1, key = score.
struct Scored {
  Tensor query, key, value;
  Problem problem;
  Scored(int64_t rows, const std::vector<double>& scores, DType dtype = DType::f64)
      : query(filled(dtype, {rows, 1}, 1)),
        key(dtype, {static_cast<int64_t>(scores.size()), 1}),
        value(dtype, {static_cast<int64_t>(scores.size()), 1}) {
    for (size_t j = 0; j < scores.size(); ++j) {
      set(key, Dims{static_cast<int64_t>(j), 0}, scores[j]);
      set(value, Dims{static_cast<int64_t>(j), 0}, static_cast<double>(j + 1));
    }
    problem.query = query;
    problem.key = key;
    problem.value = value;
    problem.scale = 1;
  }
};

// Weights 1/4 and 3/4, for which all results have a closed form.
TEST(Reference, TwoKeys) {
  Scored s(1, {0, std::log(3.0)});
  Captures wanted = everything(2);
  const Expectations e = expectations(s.problem, wanted);
  EXPECT_NEAR(doubles(e.weights.truth)[0], 0.25, 1e-15);
  EXPECT_NEAR(doubles(e.output.truth)[0], 0.25 * 1 + 0.75 * 2, 1e-15);
  EXPECT_NEAR(doubles(e.lse.truth)[0], std::log(4.0), 1e-15);
  EXPECT_NEAR(doubles(e.entropy.truth)[0], std::log(4.0) - 0.75 * std::log(3.0), 1e-15);
  EXPECT_NEAR(doubles(e.received.truth)[1], 0.75, 1e-15);
  EXPECT_NEAR(doubles(e.top_weights.truth)[0], 0.75, 1e-15);
}

ScoreSpec softcap_of(const Tensor& cap) {
  return {SoftcapReference(), "", {{"cap", -1, 0, 0, 0, {}, cap}}};
}

TEST(Reference, Softcap) {
  Scored s(1, {0, 2});
  const Tensor two = filled(DType::f64, {1}, 2), huge = filled(DType::f64, {1}, 1e8);
  s.problem.scores = {softcap_of(two)};  // 2 tanh(1)
  const Expectations e = expectations(s.problem);
  EXPECT_NEAR(doubles(e.lse.truth)[0], std::log(1 + std::exp(2 * std::tanh(1.0))), 1e-15);
  s.problem.scores = {softcap_of(huge)};
  EXPECT_NEAR(doubles(expectations(s.problem).lse.truth)[0], std::log(1 + std::exp(2.0)), 1e-14);
}

// The bias is added after the softcap, or before it.
TEST(Reference, SoftcapThenBias) {
  Scored s(1, {0, 5});
  const Tensor bias = filled(DType::f64, {1, 2}, 7);
  const Tensor one = filled(DType::f64, {1}, 1);
  s.problem.scores = {softcap_of(one)};
  s.problem.bias = bias;
  EXPECT_NEAR(doubles(expectations(s.problem).lse.truth)[0],
              7 + std::log(1 + std::exp(std::tanh(5.0))), 1e-14);
  s.problem.bias_first = true;
  EXPECT_NEAR(doubles(expectations(s.problem).lse.truth)[0],
              std::log(std::exp(std::tanh(7.0)) + std::exp(std::tanh(12.0))), 1e-14);
}

RelativeTable table_of(const Tensor& numbers) { return {true, {}, numbers}; }

// Weights 1/4 and 3/4 from one table row per distance. Values are 1 and 2, and the value rows add
// 10 and 20.
TEST(Reference, RelativePositions) {
  Scored s(1, {0, 0});
  Tensor rows(DType::f64, {3, 1}), value_rows(DType::f64, {3, 1});
  const double logs[] = {99, 0, std::log(3.0)}, added[] = {99, 10, 20};
  for (int64_t r = 0; r < 3; ++r) {
    set(rows, Dims{r, 0}, logs[r]);
    set(value_rows, Dims{r, 0}, added[r]);
  }
  s.problem.relative.distances = 3;
  s.problem.relative[RelativeSpec::keys] = table_of(rows);
  s.problem.relative[RelativeSpec::values] = table_of(value_rows);
  const Expectations e = expectations(s.problem);
  EXPECT_NEAR(doubles(e.lse.truth)[0], std::log(4.0), 1e-15);
  EXPECT_NEAR(doubles(e.output.truth)[0], 0.25 * 11 + 0.75 * 22, 1e-14);
  // With both biases: (1 + u) . key + (1 + v) . table row.
  const Tensor u = filled(DType::f64, {1}, 4), v = filled(DType::f64, {1}, 1);
  s.problem.relative[RelativeSpec::content] = table_of(u);
  s.problem.relative[RelativeSpec::position] = table_of(v);
  set(s.key, Dims{0, 0}, 0.5);
  EXPECT_NEAR(doubles(expectations(s.problem).lse.truth)[0], std::log(std::exp(2.5) + 9), 1e-14);
  // Adds key . query row, which is row 1 for key 0.
  Tensor query_rows = filled(DType::f64, {3, 1}, 7);
  set(query_rows, Dims{1, 0}, 3);
  s.problem.relative[RelativeSpec::queries] = table_of(query_rows);
  EXPECT_NEAR(doubles(expectations(s.problem).lse.truth)[0], std::log(std::exp(4.0) + 9), 1e-14);
}

TEST(Reference, RowsOfDistances) {
  RelativeSpec spec;
  spec.distances = 7;
  const auto row = [&](int64_t i, int64_t j) { return spec.row({{}, {}, i, j, 10, 12}); };
  EXPECT_EQ(row(4, 4), 3);
  EXPECT_EQ(row(4, 6), 5);
  EXPECT_EQ(row(4, 11), 6);
  EXPECT_EQ(row(9, 0), 0);
  spec.anchor = rapt::Anchor::bottom_right;  // query 0 has the position of key 2
  EXPECT_EQ(row(4, 4), 1);
  EXPECT_EQ(row(4, 6), 3);
  spec.anchor = rapt::Anchor::top_left;
  spec.distances = 100;
  spec.center = 20;
  spec.exact = 4;
  spec.max_distance = 32;  // DeBERTa v2 gives 5 for 5 to 7, 6 from 8, 7 from 16 to 31
  const std::pair<int64_t, int64_t> scale[] = {{4, 4},  {5, 5},  {7, 5},  {8, 6},  {15, 6},
                                               {16, 7}, {31, 7}, {32, 8}, {63, 9}, {200, 10}};
  for (const auto& [distance, place] : scale) {
    EXPECT_EQ(row(0, distance), 20 + place) << distance;
    EXPECT_EQ(row(distance, 0), 20 - place) << distance;
  }
  spec.exact = 8;  // max_distance - 1 is the end of a row, however its logarithm rounds
  spec.max_distance = 128;
  EXPECT_EQ(row(0, 127), 20 + 15);
  EXPECT_EQ(row(0, 128), 20 + 16);
}

// Each value counts twice or not at all; all else is as without dropout.
TEST(Reference, Dropout) {
  Scored s(20, {0, std::log(3.0)});
  s.problem.dropout = 0.5;
  s.problem.dropout_seed = 9;
  const Captures wanted = everything(2);
  const Expectations e = expectations(s.problem, wanted);
  for (int64_t i = 0; i < 20; ++i) {
    const double first = is_kept(0.5, 9, 0, i, 0) ? 2 * 0.25 * 1 : 0;
    const double second = is_kept(0.5, 9, 0, i, 1) ? 2 * 0.75 * 2 : 0;
    EXPECT_NEAR(doubles(e.output.truth)[static_cast<size_t>(i)], first + second, 1e-15);
    EXPECT_NEAR(doubles(e.weights.truth)[static_cast<size_t>(2 * i)], 0.25, 1e-15);
    EXPECT_NEAR(doubles(e.lse.truth)[static_cast<size_t>(i)], std::log(4.0), 1e-15);
  }
}

// Source: kat_vectors of Random123 1.14, by the authors of the paper.
TEST(Reference, PhiloxKnownAnswers) {
  constexpr uint32_t kOnes = 0xFFFFFFFF;
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (FourNumbers{0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8}));
  EXPECT_EQ(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (FourNumbers{0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD}));
  EXPECT_EQ(
      philox4x32_10({0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344}, {0xA4093822, 0x299F31D0}),
      (FourNumbers{0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1}));
}

TEST(Reference, RowsWithoutKeys) {
  Scored s(2, {1, 2, 3});
  s.problem.allowed = [](auto, int64_t i, int64_t) { return i == 0; };
  Captures wanted = everything(3);
  wanted.map = MapWanted{2, 1, Pooling::sum, {}};
  const Expectations e = expectations(s.problem, wanted);
  EXPECT_EQ(e.output.truth[1], 0);
  EXPECT_EQ(e.lse.truth[1], -INFINITY);
  EXPECT_EQ(e.entropy.truth[1], 0);
  EXPECT_NEAR(doubles(e.map.truth)[0], 1, 1e-15);
  EXPECT_EQ(e.map.truth[1], 0);
  EXPECT_EQ(e.top_weights.truth[3], 0);
}

// Computes every capture again from the matrix of weights, with cells of unequal sizes.
TEST(Reference, CapturesAreThoseOfTheMatrix) {
  for (const Pooling pooling : {Pooling::mean, Pooling::max, Pooling::sum}) {
    Captures wanted = everything(4);
    wanted.map = MapWanted{3, 4, pooling, {2, 0}};
    const Case c(parse_descriptor("h3q8k11d5:f64:mask=boolean(0.6):seed=3"));
    const Expectations e = expectations(c.for_reference(), wanted);
    const Result<long double> all = attention<long double>(c.for_reference());
    const auto weight = [&](int64_t h, int64_t i, int64_t j) {
      return all.weights[static_cast<size_t>((h * 8 + i) * 11 + j)];
    };
    for (int64_t h = 0; h < 3; ++h)
      for (int64_t j = 0; j < 11; ++j) {
        long double sum = 0;
        for (int64_t i = 0; i < 8; ++i) sum += weight(h, i, j);
        EXPECT_NEAR(doubles(e.received.truth)[static_cast<size_t>(h * 11 + j)],
                    static_cast<double>(sum), 1e-15);
      }
    const int64_t row_ends[] = {0, 2, 5, 8}, key_ends[] = {0, 2, 5, 8, 11};
    const int64_t heads[] = {2, 0};
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t a = 0; a < 3; ++a)
        for (int64_t b = 0; b < 4; ++b) {
          long double sum = 0, largest = 0, pairs = 0;
          for (int64_t i = row_ends[a]; i < row_ends[a + 1]; ++i)
            for (int64_t j = key_ends[b]; j < key_ends[b + 1]; ++j) {
              sum += weight(heads[h], i, j);
              largest = std::max(largest, weight(heads[h], i, j));
              ++pairs;
            }
          const long double cell = pooling == Pooling::mean  ? sum / pairs
                                   : pooling == Pooling::max ? largest
                                                             : sum;
          EXPECT_NEAR(doubles(e.map.truth)[static_cast<size_t>((h * 3 + a) * 4 + b)],
                      static_cast<double>(cell), 1e-15);
        }
  }
}

TEST(Reference, SampleIsAPartOfTheWhole) {
  const Case c(parse_descriptor("b2h2q9k7d3:mask=causal:seed=1"));
  Captures wanted = everything(2);
  wanted.map = MapWanted{3, 2, Pooling::mean, {}};
  const Expectations all = expectations(c.for_reference(), wanted);
  Sample sample;
  sample.heads = {1, 3};
  const Expectations some = expectations(c.for_reference(), wanted, sample);
  for (const auto part :
       {&Expectations::output, &Expectations::lse, &Expectations::weights, &Expectations::entropy,
        &Expectations::received, &Expectations::map, &Expectations::top_weights}) {
    const Expectation &whole = all.*part, &few = some.*part;
    ASSERT_EQ(few.truth.size(), whole.truth.size() / 2);
    ASSERT_EQ(few.at.size(), few.truth.size());
    for (size_t i = 0; i < few.at.size(); ++i) {
      EXPECT_EQ(few.truth[i], whole.truth[static_cast<size_t>(few.at[i])]);
      EXPECT_EQ(few.floor[i], whole.floor[static_cast<size_t>(few.at[i])]);
    }
  }
}

// Each packed sequence equals a problem of its own.
TEST(Reference, PackedSequencesAreSeparateProblems) {
  const Case c(parse_descriptor("h2q30k40d4:f64:mask=causal(bottom-right):packed=4:seed=5"));
  const Result<long double> packed = attention<long double>(c.for_reference());
  const auto q = c.query_starts.values<int64_t>(), k = c.key_starts.values<int64_t>();
  for (size_t s = 0; s < 4; ++s) {
    Problem own;
    const TensorView query = c.query, key = c.key, value = c.value;
    own.query = query.slice(1, q[s], q[s + 1]);
    own.key = key.slice(1, k[s], k[s + 1]);
    own.value = value.slice(1, k[s], k[s + 1]);
    const int64_t offset = (k[s + 1] - k[s]) - (q[s + 1] - q[s]), rows = q[s + 1] - q[s];
    own.allowed = [offset](auto, int64_t i, int64_t j) { return j <= i + offset; };
    const Result<long double> alone = attention<long double>(own);
    for (int64_t h = 0; h < 2; ++h)
      for (int64_t i = 0; i < rows; ++i)
        EXPECT_EQ(packed.lse[static_cast<size_t>(h * 30 + q[s] + i)],
                  alone.lse[static_cast<size_t>(h * rows + i)]);
  }
}

// 16-bit inputs are read exactly. The truth is not rounded, but the plain loop's result is.
TEST(Reference, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Scored s(1, {0, 1, 2}, dtype);
    s.problem.rounds_weights = dtype == DType::bf16;
    const Expectations e = expectations(s.problem);
    const double sum = 1 + std::exp(1.0) + std::exp(2.0);
    const double truth = (1 + 2 * std::exp(1.0) + 3 * std::exp(2.0)) / sum;
    EXPECT_NEAR(doubles(e.output.truth)[0], truth, 1e-15);
    const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    const double plain = doubles(e.output.plain)[0];
    EXPECT_NE(plain, truth);
    EXPECT_NEAR(plain, truth, 3 * unit * truth);
    const Tensor rounded = filled(dtype, {1}, plain);
    EXPECT_EQ(get(rounded, Dims{0}), plain) << "the plain output is not of the dtype";
  }
}

// A correct result rounded to 16 bits passes; one that is 8 units off fails.
TEST(Tolerance, SixteenBitsAreTight) {
  for (const char* line : {"q6k20d8:bf16:seed=2", "q6k20d8:f16:seed=2", "q1k1d1:bf16:seed=2"}) {
    SCOPED_TRACE(line);
    const Case c(parse_descriptor(line));
    const Expectations e = expectations(c.for_reference());
    Tensor rounded = filled(c.descriptor.dtype, {1}, 0);
    std::vector<double> output;
    double largest = 0;
    for (const double truth : doubles(e.output.truth)) {
      set(rounded, Dims{0}, truth);
      output.push_back(get(rounded, Dims{0}));
      largest = std::max(largest, std::abs(truth));
    }
    EXPECT_TRUE(e.output.verdict(output, "output").ok);
    const double unit = c.descriptor.dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
    output.back() += 8 * unit * largest;
    EXPECT_FALSE(e.output.verdict(output, "output").ok);
  }
}

// A number as two bf16 parts and the rest.
struct Parts {
  double high, low, rest;
};
Parts parts_of(float x, bool cut) {
  const float high = cut ? std::bit_cast<float>(std::bit_cast<uint32_t>(x) & 0xFFFF0000u)
                         : float(rapt::BFloat16::from(x));
  const float low = float(rapt::BFloat16::from(x - high));
  return {high, low, double{x} - high - low};
}

// The measured error of products of two parts is within the allowed error, and above 60 % of it.
TEST(Tolerance, TwoPartsLeaveOutWhatIsSaid) {
  Random random(7);
  for (const DType dtype : {DType::f32, DType::f16}) {
    const LeftOut allowed = left_out_of_two_parts(dtype);
    double rows = 0, weights = 0;
    const auto number = [&] {
      const auto x = static_cast<float>(random.uniform() + 1);
      return dtype == DType::f16 ? float(rapt::Float16::from(x)) : x;
    };
    const auto left_out = [](const Parts& a, const Parts& b, double product) {
      return std::abs(1 - (a.high * b.high + a.high * b.low + a.low * b.high) / product);
    };
    for (int n = 0; n < 300'000; ++n) {
      const float x = number(), y = number(), weight = static_cast<float>(random.uniform() + 1);
      const Parts of_row = parts_of(y, false);
      if (dtype == DType::f16) {
        EXPECT_EQ(of_row.rest, 0);
      }
      rows = std::max(rows, left_out(parts_of(x, false), of_row, double{x} * y));
      weights = std::max(weights, left_out(parts_of(weight, true), of_row, double{weight} * y));
    }
    EXPECT_LE(rows, allowed.rows);
    EXPECT_LE(weights, allowed.weights);
    EXPECT_GT(rows, 0.6 * allowed.rows);
    EXPECT_GT(weights, 0.6 * allowed.weights);
  }
}

// The tolerance for two parts rejects an error of 2^-10, which a single part could not avoid.
TEST(Tolerance, TwoPartsAreTight) {
  const Case c(parse_descriptor("h2q12k30d8:mask=causal(bottom-right):seed=4"));
  Problem problem = c.for_reference();
  problem.left_out = left_out_of_two_parts(DType::f32);
  const Expectations e = expectations(problem);
  for (const auto part : {&Expectations::output, &Expectations::lse, &Expectations::weights}) {
    const Expectation& expected = e.*part;
    std::vector<double> wrong = doubles(expected.plain);
    EXPECT_TRUE(expected.verdict(wrong, "x").ok);
    wrong[7] += 1e-3;  // 2^-10
    EXPECT_FALSE(expected.verdict(wrong, "x").ok) << expected.budget().max;
  }
}

// Only the tiles route has a fast precision; elsewhere fast equals automatic.
TEST(Tolerance, FastIsAutomaticElsewhere) {
  for (const char* line : {"q6k20d8:precision=fast", "q40k60d8:f64:precision=fast:invariant",
                           "q40k60d8:bf16:precision=fast", "q40k60d8:precision=automatic"}) {
    SCOPED_TRACE(line);
    const Problem problem = Case(parse_descriptor(line)).for_reference();
    EXPECT_EQ(problem.left_out.rows, 0);
    EXPECT_EQ(problem.left_out.weights, 0);
    EXPECT_EQ(problem.rounds_weights, problem.query.dtype == DType::bf16);
  }
}

// A cap makes a number of an infinite score, with the rounding errors that it has at a large one.
TEST(Tolerance, CappedInfiniteScores) {
  const Tensor cap = filled(DType::f32, {1}, 30);
  const auto floors = [&](double score) {
    Scored s(1, {score, 0}, DType::f32);
    s.problem.scores = {softcap_of(cap)};
    const Expectations e = expectations(s.problem);
    return std::vector<double>{e.output.floor[0], e.lse.floor[0], e.weights.floor[1]};
  };
  for (const double sign : {-1.0, 1.0}) {
    const std::vector<double> infinite = floors(sign * INFINITY);
    EXPECT_EQ(infinite, floors(sign * 1e6));
    EXPECT_GT(infinite[1], 100 * double{std::numeric_limits<float>::epsilon()});
  }
}

// An infinite weight times a value may be NaN where products are made of parts, and nowhere else.
TEST(Tolerance, InfiniteWeightsHaveNoParts) {
  const Case c(parse_descriptor("q1k2d2:norm=relu(2):scale=1:set=query[0,*]=1,key[1,*]=inf"));
  Problem problem = c.for_reference();
  for (const bool in_parts : {false, true}) {
    problem.in_parts = in_parts;
    const Expectation output = expectations(problem).output;
    std::vector<double> got = doubles(output.truth);
    EXPECT_TRUE(std::isinf(got[0]));
    EXPECT_TRUE(output.verdict(got, "output").ok);
    got[0] = NAN;
    EXPECT_EQ(output.verdict(got, "output").ok, in_parts);
    for (const double wrong : {1.0, -static_cast<double>(output.truth[0])}) {
      got[0] = wrong;
      EXPECT_FALSE(output.verdict(got, "output").ok) << wrong;
    }
  }
}

TEST(Tolerance, FindsWrongResultsInEveryTensor) {
  const Case c(parse_descriptor("h2q12k30d8:mask=causal(bottom-right):seed=4"));
  Captures wanted = everything(5);
  wanted.map = MapWanted{4, 5, Pooling::mean, {}};
  const Expectations e = expectations(c.for_reference(), wanted);
  for (const auto part :
       {&Expectations::output, &Expectations::lse, &Expectations::weights, &Expectations::entropy,
        &Expectations::received, &Expectations::map, &Expectations::top_weights}) {
    const Expectation& expected = e.*part;
    const std::vector<double> right = doubles(expected.plain);
    EXPECT_TRUE(expected.verdict(right, "x").ok);
    for (size_t i = 0; i < right.size(); i += 7) {
      std::vector<double> wrong = right;
      wrong[i] += 1e-4;
      EXPECT_FALSE(expected.verdict(wrong, "x").ok);
      wrong[i] = NAN;
      EXPECT_FALSE(expected.verdict(wrong, "x").ok);
    }
    EXPECT_FALSE(expected.verdict(std::span(right).first(right.size() - 1), "x").ok);
  }
}

// Scores 1, 3, 3, 2 and a fifth key that is masked.
TEST(Tolerance, TopK) {
  Scored s(1, {1, 3, 3, 2, 9}, DType::f32);
  s.problem.allowed = [](auto, int64_t, int64_t j) { return j != 4; };
  Captures wanted;
  wanted.top_k = 5;
  const Expectations e = expectations(s.problem, wanted);
  const std::vector<double> w = doubles(e.top_weights.truth);
  const auto verdict = [&](std::vector<double> keys, std::vector<double> weights) {
    return verdict_of_top_k(e, keys, weights, 5);
  };
  EXPECT_TRUE(verdict({1, 2, 3, 0, -1}, w).ok) << verdict({1, 2, 3, 0, -1}, w).message;
  EXPECT_TRUE(verdict({2, 1, 3, 0, -1}, w).ok) << "the order of equal ones is not judged here";
  EXPECT_FALSE(verdict({1, 1, 3, 0, -1}, w).ok) << "a key twice";
  EXPECT_FALSE(verdict({1, 2, 0, 3, -1}, w).ok) << "keys exchanged";
  EXPECT_FALSE(verdict({1, 2, 3, 4, -1}, w).ok) << "an excluded key";
  EXPECT_FALSE(verdict({1, 2, 3, -1, -1}, w).ok) << "a weight without a key";
  EXPECT_FALSE(verdict({1, 2, 3, -1, -1}, {w[0], w[1], w[2], 0, 0}).ok) << "a key is left";
  EXPECT_FALSE(verdict({1, 2, 3, 0, 4}, w).ok) << "a key behind the last";
  EXPECT_FALSE(verdict({1, 2, 3, 7, -1}, w).ok) << "no such key";
}

// Large problems are checked on some rows, or on whole heads if a capture sums over queries. The
// sample is the same each time.
TEST(Sample, OfBigProblems) {
  const Descriptor small = parse_descriptor("h2q64k64d8");
  EXPECT_FALSE(sample_of(small).heads || sample_of(small).rows);
  const Descriptor big = parse_descriptor("b2h8q65536k65536d64:seed=9");
  const Sample rows = sample_of(big);
  ASSERT_TRUE(rows.rows.has_value());
  EXPECT_FALSE(rows.heads.has_value());
  EXPECT_TRUE(std::ranges::is_sorted(*rows.rows));
  EXPECT_EQ(std::ranges::adjacent_find(*rows.rows), rows.rows->end());
  EXPECT_EQ(*sample_of(big).rows, *rows.rows) << "not the same rows twice";
  const Sample heads = sample_of(parse_descriptor("b2h8q4096k4096d64:received"));
  EXPECT_FALSE(heads.rows.has_value());
  EXPECT_EQ(heads.heads->size(), 1u);
  const Sample many = sample_of(parse_descriptor("h99999q1k99999d64"));
  EXPECT_EQ(many.heads->size(), 64u);
}

}  // namespace
}  // namespace check
