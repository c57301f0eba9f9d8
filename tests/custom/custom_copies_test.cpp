// Custom scores and normalisers behave like those of the catalogue: copies of these agree with the
// same reference over the whole grid, forward, backward and in tangents, and have the same bits on
// the scalar set.
#include <gtest/gtest.h>

#include <cstdlib>

#include "check/draw/law_grid.h"
#include "custom/custom_copies.h"
#include "gradients/gradient_problems.h"
#include "gradients/tangent_reference.h"
#include "rapt/tangents.h"
#include "support/executors.h"

namespace laws {
namespace {

bool scalar_set() {
  const char* const set = std::getenv("RAPT_ISA");
  return set && std::string_view(set) == "scalar";
}

// Only softmax gets its scores in units of log2; a custom normaliser never does.
bool natural(const Descriptor& d) { return d.has_bias || !d.scores.empty(); }

void expect_same_tensors(const AttentionResult& a, const AttentionResult& b) {
  const auto expect = [](const Tensor& x, const Tensor& y, const char* what) {
    ASSERT_EQ(x.defined(), y.defined()) << what;
    if (!x.defined()) return;
    EXPECT_TRUE(same_bits(x, y)) << what;
  };
  expect(a.output, b.output, "output");
  expect(a.statistic, b.statistic, "statistic");
  expect(a.weights, b.weights, "weights");
  expect(a.map, b.map, "map");
  expect(a.top_keys, b.top_keys, "top_keys");
  expect(a.top_weights, b.top_weights, "top_weights");
  expect(a.entropy, b.entropy, "entropy");
  expect(a.received, b.received, "received");
}

void expect_same_gradients(const rapt::Gradients& a, const rapt::Gradients& b) {
  const auto expect = [](const Tensor& x, const Tensor& y, const char* what) {
    ASSERT_EQ(x.defined(), y.defined()) << what;
    if (!x.defined()) return;
    EXPECT_TRUE(same_bits(x, y)) << what;
  };
  expect(a.d_query, b.d_query, "d_query");
  expect(a.d_key, b.d_key, "d_key");
  expect(a.d_value, b.d_value, "d_value");
  expect(a.d_bias, b.d_bias, "d_bias");
  expect(a.d_scale, b.d_scale, "d_scale");
  expect(a.d_score_parameters, b.d_score_parameters, "d_score_parameters");
  expect(a.d_normalizer_parameters, b.d_normalizer_parameters, "d_normalizer_parameters");
}

TEST(CustomCopies, AgreeWithTheReference) {
  LawGrid grid(base_seed() + 31);
  int64_t copied = 0;
  for (int n = 0; n < problem_count(2000) && !HasFailure(); ++n) {
    Case c(grid.next());
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
    const AttentionResult catalogue = run(c);
    const Copies copies(c);
    if (copies.count() == 0) continue;
    ++copied;
    const AttentionResult own = run(c);
    const Comparison comparison = compare(c, own);
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
    if (scalar_set() && natural(c.descriptor) && copies.sums_in_the_same_order(c.descriptor.k_len))
      expect_same_tensors(own, catalogue);
  }
  EXPECT_GT(copied, problem_count(2000) / 2);
}

TEST(CustomCopies, GradientsAgreeWithTheReference) {
  Random random(base_seed() + 32);
  for (int n = 0; n < problem_count(600) && !HasFailure(); ++n) {
    Case c(gradient_problem(random_cell(random), random));
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
    const GradientCase g(c);
    const rapt::Gradients catalogue = run_backward(g);
    const Copies copies(c);
    if (copies.count() == 0) continue;
    const rapt::Gradients own = run_backward(g);
    const Comparison comparison = compare(g, own);
    EXPECT_TRUE(comparison.ok()) << comparison.failures();
    if (scalar_set() && natural(c.descriptor) && copies.sums_in_the_same_order(c.descriptor.k_len))
      expect_same_gradients(own, catalogue);
    Threads threads(3);
    Context context;
    context.executor = &threads;
    expect_same_gradients(run_backward(g, context), own);
  }
}

// Tangents are always computed in natural units, and by FMA.
TEST(CustomCopies, TangentsHaveTheBitsOfTheCatalogue) {
  if (!scalar_set()) GTEST_SKIP() << "other sets round otherwise than the words of the copies";
  Random random(base_seed() + 33);
  for (int n = 0; n < problem_count(200) && !HasFailure(); ++n) {
    Descriptor d = gradient_problem(random_cell(random), random);
    d.captures = {};
    Case c(d);
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
    const GradientCase g(c);
    AttentionResult forward = attend(c);
    const std::vector<double> parameters(static_cast<size_t>(count_parameters_of(d.scores)), 0.25);
    rapt::InputTangents moves;
    moves.query = c.query, moves.key = c.key, moves.scale = 0.5;
    moves.score_parameters = parameters;
    const auto along = [&] {
      return rapt::attention_jvp(c.query, c.key, c.value, c.options, forward.state(), moves);
    };
    const auto twice = [&] {
      return rapt::attention_backward_jvp(c.query, c.key, c.value, c.options,
                                          g.inputs(forward.state()), moves, {}, request_of(g));
    };
    if (!has_tangents(d)) continue;
    const rapt::StateTangents tangents = along();
    const rapt::Gradients second = twice();
    const Copies copies(c);
    const rapt::StateTangents own = along();
    EXPECT_TRUE(same_bits(own.output, tangents.output));
    EXPECT_TRUE(same_bits(own.statistic, tangents.statistic));
    expect_same_gradients(twice(), second);
  }
}

}  // namespace
}  // namespace laws
