// Sampling: the candidates of a direct computation, frequencies, counters, element types, errors.
#include "rapt/generation/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "support/expect_error.h"

namespace {

using namespace rapt;
using generation::Sampler;
using generation::SamplingOptions;
using laws::expect_error;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TensorView logits_view(const std::vector<float>& logits) {
  return {logits.data(), {static_cast<int64_t>(logits.size())}};
}

// The probabilities of all tokens by the formulas of the header, one step after the other.
std::vector<double> direct_probabilities(const std::vector<float>& logits,
                                         const SamplingOptions& options) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p;
  for (const float logit : logits)
    p.push_back(std::exp((static_cast<double>(logit) - most) / options.temperature));
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p[a] > p[b]; });
  const auto normalize = [&] {
    const double sum = std::accumulate(p.begin(), p.end(), 0.0);
    for (double& x : p) x /= sum;
  };
  normalize();
  if (options.top_k > 0)
    for (size_t rank = static_cast<size_t>(options.top_k); rank < p.size(); ++rank)
      p[order[rank]] = 0;
  normalize();
  double before = 0;
  for (const size_t token : order) {
    const double own = p[token];
    if (options.top_p < 1 && before >= options.top_p) p[token] = 0;
    before += own;
  }
  normalize();
  const double greatest = p[order[0]];
  for (double& x : p)
    if (x < options.min_p * greatest) x = 0;
  normalize();
  return p;
}

std::vector<float> drawn_logits(size_t count, double deviation, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(normal(random));
  return logits;
}

TEST(Sampler, CandidatesAreThoseOfTheDirectComputation) {
  for (const size_t vocabulary : {1, 7, 300})
    for (const double temperature : {0.3, 1.0, 2.5})
      for (const int64_t top_k : {0, 1, 5, 100, 1000})
        for (const double top_p : {1.0, 0.9, 0.4, 0.001})
          for (const double min_p : {0.0, 0.05, 1.0}) {
            const SamplingOptions options{
                .temperature = temperature, .top_k = top_k, .top_p = top_p, .min_p = min_p};
            std::vector<float> logits = drawn_logits(vocabulary, 2, vocabulary + 1);
            if (vocabulary == 300) logits[3] = -kInfinity, logits[17] = logits[4];
            const std::vector<double> expected = direct_probabilities(logits, options);
            Sampler sampler(options, static_cast<int64_t>(vocabulary));
            std::vector<double> found(vocabulary, 0);
            for (const auto& [token, probability] : sampler.candidates(logits_view(logits)))
              found[static_cast<size_t>(token)] = probability;
            for (size_t i = 0; i < vocabulary; ++i)
              ASSERT_NEAR(found[i], expected[i], 1e-12)
                  << "token " << i << " of " << vocabulary << ", temperature " << temperature
                  << ", top_k " << top_k << ", top_p " << top_p << ", min_p " << min_p;
          }
}

TEST(Sampler, OfEquallyProbableTokensTheEarlierOnesAreKept) {
  const std::vector<float> logits = {1, 2, 2, 0, 2, 2};
  Sampler three({.top_k = 3}, 6), half({.top_p = 0.5}, 6);
  std::vector<int64_t> tokens;
  for (const auto& candidate : three.candidates(logits_view(logits)))
    tokens.push_back(candidate.token);
  EXPECT_EQ(tokens, (std::vector<int64_t>{1, 2, 4}));
  tokens.clear();
  // Four tokens have 0.887 together: two of them less than a half, three more.
  for (const auto& candidate : half.candidates(logits_view(logits)))
    tokens.push_back(candidate.token);
  EXPECT_EQ(tokens, (std::vector<int64_t>{1, 2, 4}));
}

TEST(Sampler, TemperatureZeroTakesTheLargestLogit) {
  Sampler sampler({.temperature = 0, .top_k = 3, .top_p = 0.5}, 5);
  const std::vector<float> logits = {-3, 4, 1, 4, -kInfinity};
  for (int64_t position = 0; position < 20; ++position)
    EXPECT_EQ(sampler.draw(logits_view(logits), 0, position), 1);
  EXPECT_EQ(sampler.candidates(logits_view(logits)).size(), 1u);
}

TEST(Sampler, DrawsAsOftenAsProbable) {
  constexpr int64_t kDraws = 40000;
  const SamplingOptions options{.temperature = 1.5, .top_k = 8, .min_p = 0.02, .seed = 5};
  const std::vector<float> logits = drawn_logits(12, 1, 3);
  const std::vector<double> expected = direct_probabilities(logits, options);
  Sampler sampler(options, 12);
  std::vector<int64_t> counts(12, 0);
  for (int64_t position = 0; position < kDraws; ++position)
    ++counts[static_cast<size_t>(sampler.draw(logits_view(logits), 0, position))];
  for (size_t i = 0; i < counts.size(); ++i) {
    const double p = expected[i], deviation = std::sqrt(p * (1 - p) / kDraws);
    EXPECT_NEAR(static_cast<double>(counts[i]) / kDraws, p, 5 * deviation) << i;
    EXPECT_EQ(p == 0, counts[i] == 0) << i;
  }
}

std::vector<int64_t> draws(Sampler& sampler, const std::vector<float>& logits, int64_t sequence) {
  std::vector<int64_t> tokens;
  for (int64_t position = 0; position < 64; ++position)
    tokens.push_back(sampler.draw(logits_view(logits), sequence, position));
  return tokens;
}

TEST(Sampler, ADrawDependsOnSeedSequenceAndPositionAlone) {
  const std::vector<float> logits = drawn_logits(50, 0.5, 1);
  Sampler one({.seed = 1}, 50), other({.seed = 2}, 50);
  const std::vector<int64_t> tokens = draws(one, logits, 0);
  EXPECT_NE(draws(one, logits, 1), tokens);
  EXPECT_NE(draws(other, logits, 0), tokens);
  for (int64_t position = 63; position >= 0; --position)  // after others, in another order
    EXPECT_EQ(one.draw(logits_view(logits), 0, position), tokens[static_cast<size_t>(position)]);
}

TEST(Sampler, ReadsEveryFloatingPointType) {
  const std::vector<float> logits = {0.5f, -1, 2, 1.25f};  // exact in all types
  Sampler sampler({}, 4);
  const auto expected = sampler.candidates(logits_view(logits));
  const std::vector<Sampler::Candidate> kept(expected.begin(), expected.end());
  const auto expect_same = [&](const TensorView& view) {
    const auto found = sampler.candidates(view);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i].probability, kept[i].probability);
  };
  std::vector<double> f64(logits.begin(), logits.end());
  std::vector<BFloat16> bf16;
  std::vector<Float16> f16;
  for (const float x : logits) bf16.push_back(BFloat16::from(x)), f16.push_back(Float16::from(x));
  expect_same({f64.data(), {4}});
  expect_same({bf16.data(), {4}});
  expect_same({f16.data(), {4}});
}

TEST(Sampler, RejectsOptionsOutOfTheirRanges) {
  const auto refused = [](const SamplingOptions& options, const std::string& name) {
    expect_error(ErrorCode::argument, {name, "expected"}, [&] { Sampler(options, 4); });
  };
  refused({.temperature = -1}, "temperature");
  refused({.temperature = std::nan("")}, "temperature");
  refused({.temperature = HUGE_VAL}, "temperature");
  refused({.top_k = -1}, "top_k");
  refused({.top_p = 0}, "top_p");
  refused({.top_p = 1.5}, "top_p");
  refused({.min_p = -0.1}, "min_p");
  refused({.min_p = std::nan("")}, "min_p");
  expect_error(ErrorCode::argument, {"vocabulary of 0"}, [] { Sampler({}, 0); });
}

TEST(Sampler, RejectsLogitsThatNothingCanBeDrawnFrom) {
  Sampler sampler({}, 3);
  const auto refused = [&](const std::vector<float>& logits, const std::string& message) {
    expect_error(ErrorCode::argument, {message}, [&] { sampler.draw(logits_view(logits), 0, 0); });
  };
  refused({0, std::nanf(""), 0}, "token 1 is nan");
  refused({0, 0, kInfinity}, "token 2 is inf");
  refused({-kInfinity, -kInfinity, -kInfinity}, "all logits are -inf");
  const std::vector<float> four(4);
  expect_error(ErrorCode::shape, {"[4]", "[3]"}, [&] { sampler.candidates(logits_view(four)); });
  const std::vector<int64_t> integers(3);
  expect_error(ErrorCode::dtype, {"i64"}, [&] { sampler.candidates({integers.data(), {3}}); });
}

}  // namespace
