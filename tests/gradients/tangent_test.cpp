// Forward mode and second derivatives against a reference in dual numbers, over all options; and
// against finite differences of the library's own f64 results.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gradients/gradient_problems.h"
#include "gradients/tangent_reference.h"
#include "rapt/tangents.h"

namespace laws {
namespace {

// Prints how near the errors come to their bounds, so that a loose bound is visible.
double nearest = 0;

void expect_tangents(const char* name, const TensorView& got, const Expectation& expected) {
  const Verdict verdict = expected.verdict(values_of(got), name);
  EXPECT_TRUE(verdict.ok) << verdict.message;
  if (verdict.allowed.rms > 0) nearest = std::max(nearest, verdict.error.rms / verdict.allowed.rms);
}

void expect_agreement(const GradientCase& g, const Motion& motion) {
  const check::Case& c = g.c;
  const Motions expected(g, motion);
  const check::Case::Inputs in = c.laid_out();
  const AttentionOptions options = c.wanted_options();
  AttentionResult forward = scaled_dot_product_attention(in.query, in.key, in.value, options);
  const rapt::StateTangents jvp =
      rapt::attention_jvp(in.query, in.key, in.value, options, forward.state(), motion.inputs());
  expect_tangents(
      "output", jvp.output,
      expected_tangents(expected.truth.output, expected.plain.output, jvp.output.dtype()));
  expect_tangents("lse", jvp.statistic,
                  expected_tangents(expected.truth.lse, expected.plain.lse, DType::f32));
  const rapt::Gradients got =
      rapt::attention_backward_jvp(in.query, in.key, in.value, options, g.inputs(forward.state()),
                                   motion.inputs(), motion.outputs(), request_of(g));
  const auto compare = [&](const char* name, const Tensor& t,
                           const std::vector<Dual<long double>>& truth,
                           const std::vector<Dual<long double>>& plain) {
    if (t.defined()) expect_tangents(name, t, expected_tangents(truth, plain, t.dtype()));
  };
  compare("d_query", got.d_query, expected.truth.query, expected.plain.query);
  compare("d_key", got.d_key, expected.truth.key, expected.plain.key);
  compare("d_value", got.d_value, expected.truth.value, expected.plain.value);
  compare("d_bias", got.d_bias, expected.truth.bias, expected.plain.bias);
  compare("d_scale", got.d_scale, {expected.truth.scale}, {expected.plain.scale});
  compare("d_score_parameters", got.d_score_parameters, expected.truth.numbers,
          expected.plain.numbers);
}

// There are no second derivatives of returned weights; long double is slow.
bool can_move(Descriptor& d) {
  d.captures = {};
  d.precision = rapt::Precision::fma;
  return has_tangents(d) && d.work() <= 3e5;
}

TEST(Tangents, AgreeWithTheReference) {
  nearest = 0;
  for_gradient_problems(500, can_move,
                        [](const check::Case&, const GradientCase& g, Random& random) {
                          expect_agreement(g, Motion(g, random));
                        });
  std::printf("nearest to the bound: %.3f of it\n", nearest);
}

// More than one unit of queries and part of keys, and what random problems draw too seldom.
TEST(Tangents, AgreeOverManyBlocks) {
  for (const char* line :
       {"h2/1q150k420d3v5:f32:mask=causal:seed=1",
        "h3/1q70k200d4:f64:score=softcap(2):dropout=0.3:seed=2",
        "b2h2q66k100d4:f32:key=[1,1]:value=[2,1]:query=[1,2]:bias=[2,1,100]:seed=3",
        "b2h2q40k30d4:f64:bias=[2,40,1]:key=[2,1]:seed=4", "h2q65k97d4:f32:bias=[1,1]:seed=5",
        "h2q70k50d4:f32:scale=0:bias=[70,50],0.3:seed=6",
        "h2q70k150d4:f64:bias=0.3,before:score=softcap(2),head_scale:seed=8",
        "b2h2q66k100d4:f32:bias=[2,1,1,1],before:score=softcap(3):mask=causal:seed=9",
        "b2h4/2q30k40d8:bf16:mask=window(3,2):seed=7"}) {
    SCOPED_TRACE(line);
    Descriptor d = parse_descriptor(line);
    d.backward.d_lse = true;
    d.precision = rapt::Precision::fma;
    const check::Case c(d);
    const GradientCase g(c);
    Random random(7);
    expect_agreement(g, Motion(g, random));
  }
}

// The library's f64 results as a function of how far the inputs have moved.
struct Path {
  const GradientCase& g;
  const Motion& motion;

  std::vector<double> at(double t) const {
    const check::Case& c = g.c;
    const auto moved = [&](const Tensor& x, const Tensor& by) {
      const std::vector<double> steps = values_of(by);
      size_t place = 0;
      return mapped(x, [&](double v, auto) { return v + t * steps[place++]; });
    };
    const Tensor query = moved(c.query, motion.query), key = moved(c.key, motion.key),
                 value = moved(c.value, motion.value),
                 d_output = moved(g.d_output, motion.d_output);
    Tensor bias, d_lse;
    AttentionOptions options = c.options;
    if (c.bias.defined()) options.bias = bias = moved(c.bias, motion.bias);
    options.scale =
        c.descriptor.scale.value_or(1 / std::sqrt(static_cast<double>(c.descriptor.head_dim))) +
        t * motion.scale;
    std::vector<check::ScoreSpec> specs = c.descriptor.scores;
    std::vector<Tensor> numbers;
    std::vector<rapt::MadeScore> scores;
    const double* step = motion.numbers.data();
    for (check::ScoreSpec& spec : specs) {
      for (check::LearnedParameter& parameter : spec.learned) {
        numbers.push_back(
            mapped(parameter.numbers, [&](double v, auto) { return v + t * *step++; }));
        parameter.numbers = numbers.back();
      }
      scores.push_back(check::made(spec));
    }
    options.scores = check::refs_of(scores);
    AttentionResult forward = scaled_dot_product_attention(query, key, value, options);
    rapt::BackwardInputs inputs = g.inputs(forward.state());
    inputs.d_output = d_output;
    if (g.d_lse.defined()) inputs.d_statistic = d_lse = moved(g.d_lse, motion.d_lse);
    const rapt::Gradients gradients =
        scaled_dot_product_attention_backward(query, key, value, options, inputs, request_of(g));
    return all_of(forward.output, forward.statistic, gradients);
  }
  std::vector<double> tangents() const {
    const check::Case& c = g.c;
    AttentionResult forward = scaled_dot_product_attention(c.query, c.key, c.value, c.options);
    const rapt::StateTangents jvp =
        rapt::attention_jvp(c.query, c.key, c.value, c.options, forward.state(), motion.inputs());
    return all_of(
        jvp.output, jvp.statistic,
        rapt::attention_backward_jvp(c.query, c.key, c.value, c.options, g.inputs(forward.state()),
                                     motion.inputs(), motion.outputs(), request_of(g)));
  }

 private:
  static std::vector<double> all_of(const Tensor& output, const Tensor& lse,
                                    const rapt::Gradients& g) {
    std::vector<double> all;
    for (const Tensor* t : {&output, &lse, &g.d_query, &g.d_key, &g.d_value, &g.d_bias, &g.d_scale,
                            &g.d_score_parameters})
      if (t->defined())
        for (const double x : values_of(*t)) all.push_back(std::isinf(x) ? 0 : x);
    return all;
  }
};

// Four points 2^-9 apart: the truncation is some 1e-10 of the largest tangent, rounding 1e-13.
TEST(Tangents, AreFiniteDifferences) {
  constexpr double kStep = 0x1p-9, kAllowed = 1e-7;
  for (const char* line :
       {"h4/2q5k6d3:f64:mask=causal:seed=1", "b2h2q4k5d3v2:f64:bias=[2,4,5],0.2:seed=2",
        "b2h2q4k5d3:f64:score=softcap(1.5):bias=[4,1]:dropout=0.3:seed=3",
        "b2h2q4k5d3:f64:bias=0.2,before:score=softcap(1.5),head_scale:seed=7",
        "h2q4k6d3:f64:score=kerple_log,softcap(2):seed=8",
        "h2q9k11d3:f64:mask=causal:packed=3:seed=4", "[2]h2q3k4d3:f64:query=[1,1]:key=[2]:seed=5",
        "h2q5k3d2:f64:mask=causal(-2):scale=-0.8:seed=6"}) {
    SCOPED_TRACE(line);
    Descriptor d = parse_descriptor(line);
    d.backward.d_lse = true;
    const check::Case c(d);
    const GradientCase g(c);
    Random random(9);
    const Motion motion(g, random);
    const Path path{g, motion};
    const std::vector<double> got = path.tangents();
    const std::vector<double> a = path.at(-2 * kStep), b = path.at(-kStep), e = path.at(kStep),
                              f = path.at(2 * kStep);
    double largest = 0;
    for (const double x : got) largest = std::max(largest, std::abs(x));
    ASSERT_EQ(got.size(), a.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], (8 * (e[i] - b[i]) - (f[i] - a[i])) / (12 * kStep), kAllowed * largest)
          << "number " << i;
  }
}

}  // namespace
}  // namespace laws
