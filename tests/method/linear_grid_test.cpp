// favor and linear on drawn problems with lengths around the ends of chunks: results, gradients,
// and states in and out agree with loops over tokens (check/reference/feature_loops.h), which agree
// with finite differences.
#include <gtest/gtest.h>

#include <algorithm>

#include "check/draw/drawn_mask.h"
#include "check/problem/descriptor.h"
#include "check/reference/feature_loops.h"
#include "check/tolerance/feature_tolerance.h"
#include "gradients/gradient_problems.h"
#include "linear_states.h"
#include "rapt/mask/lengths.h"
#include "support/problem_count.h"

namespace laws {
namespace {

uint8_t value_of_axis(AxisIndex axis, std::string_view name) {
  const auto& values = kAxes[axis].values;
  return static_cast<uint8_t>(std::ranges::find(values, name) - values.begin());
}

// A problem of the method with lengths around the ends of chunks of 64 tokens.
Descriptor drawn_problem(const char* method, Random& random) {
  GridPoint point;
  do {
    point = {};
    point[kMethodAxis] = value_of_axis(kMethodAxis, method);
    point[kMaskAxis] =
        value_of_axis(kMaskAxis, random.pick({"none", "causal", "causal", "lengths"}));
    for (const AxisIndex axis : {kDTypeAxis, kHeadsAxis, kLayoutAxis, kScaleAxis})
      point[axis] = static_cast<uint8_t>(
          random.between(0, static_cast<int64_t>(kAxes[axis].values.size()) - 1));
    point[kSizesAxis] = value_of_axis(
        kSizesAxis, random.pick({"tiles", "blocks", "blocks", "tiny", "narrow value"}));
  } while (!can_be(point));
  Descriptor d = descriptor_at(point, random);
  if (point[kMaskAxis] == value_of_axis(kMaskAxis, "causal") && random.chance(0.4))
    d.masks.push_back(check::drawn_mask(random, rapt::Lengths::kDeclaration, d, true));
  d.backward.d_lse = random.chance(0.5) && rapt::make_method(d.method)->scope().d_statistic;
  d.backward.f32 = rapt::size_of(d.dtype) == 2 && random.chance(0.3);
  return d;
}

TensorView rows_of(const Tensor& t, int64_t first, int64_t end) {
  return t.view().slice(t.rank() - 2, first, end);
}

// The sums of a state with their power, [..., features][value_dim + 1].
std::vector<double> sums_of(const Tensor& state) {
  const int64_t rows = state.dim(-2), columns = state.dim(-1);
  const std::vector<double> all = values_of(state);
  std::vector<double> sums;
  for (size_t first = 0; first < all.size(); first += static_cast<size_t>(rows * columns)) {
    const double power = all[first + static_cast<size_t>((rows - 1) * columns)];
    for (size_t i = 0; i < static_cast<size_t>((rows - 1) * columns); ++i)
      sums.push_back(std::exp2(power) * all[first + i]);
  }
  return sums;
}

void expect_ok(const check::Verdict& verdict) { EXPECT_TRUE(verdict.ok) << verdict.message; }

// A call over the first keys leaves a state, and a call behind it has the results of all.
void expect_continuation(const Case& c, Random& random) {
  const Descriptor& d = c.descriptor;
  const check::Problem reference = c.for_reference();
  Tensor state = state_of(c), last = state_of(c);
  WithStates method(c);
  AttentionOptions options = c.options;
  const bool causal = !d.masks.empty();
  const int64_t split = random.between(0, d.k_len), q_split = causal ? split : d.q_len;
  options.method = method.with({}, state.view());
  AttentionResult first = scaled_dot_product_attention(
      rows_of(c.query, 0, q_split), rows_of(c.key, 0, split), rows_of(c.value, 0, split), options);
  options.method = method.with(state.view(), last.view());
  const AttentionResult second = scaled_dot_product_attention(
      rows_of(c.query, causal ? split : 0, d.q_len), rows_of(c.key, split, d.k_len),
      rows_of(c.value, split, d.k_len), options);
  // Twice the budget: the sums are made of two parts, and a state is rounded where they meet.
  const check::Expectations expected = check::feature_expectations(reference);
  const auto joined = [&](const Tensor& a, const Tensor& b, int64_t width) {
    const std::vector<double> of_first = values_of(a), of_second = values_of(b);
    const auto begin = static_cast<size_t>(causal ? split * width : 0),
               rest = static_cast<size_t>(d.q_len * width) - begin;
    std::vector<double> all;
    for (size_t h = 0; h < static_cast<size_t>(d.heads()); ++h) {
      all.insert(all.end(), of_first.begin() + static_cast<int64_t>(h * begin),
                 of_first.begin() + static_cast<int64_t>((h + 1) * begin));
      all.insert(all.end(), of_second.begin() + static_cast<int64_t>(h * rest),
                 of_second.begin() + static_cast<int64_t>((h + 1) * rest));
    }
    return all;
  };
  expect_ok(expected.output.verdict(joined(first.output, second.output, d.value_dim), "output", 2));
  expect_ok(expected.lse.verdict(joined(first.statistic, second.statistic, 1), "lse", 2));
  if (d.q_len > 0)
    expect_ok(check::feature_state_expectation(reference).verdict(sums_of(last), "state", 2));
}

TEST(LinearGrid, AgreesWithTheReference) {
  Random random(base_seed() + 31);
  int gradients = 0, continued = 0, both_masks = 0;
  for (int n = 0; n < problem_count(200) && !HasFailure(); ++n) {
    const Case c(drawn_problem(n % 2 == 0 ? "favor" : "linear", random));
    SCOPED_TRACE("rapt check '" + to_string(c.descriptor) + "'");
    const check::Comparison results = compare(c, run(c));
    EXPECT_TRUE(results.ok()) << results.failures();
    const GradientCase g(c);
    const check::Comparison of_inputs = compare(g, run_backward(g));
    EXPECT_TRUE(of_inputs.ok()) << of_inputs.failures();
    ++gradients;
    both_masks += c.masks.size() == 2;
    const bool has_lengths = std::ranges::any_of(c.masks, [](const auto& mask) {
      return &mask->declaration() == &rapt::Lengths::kDeclaration;
    });
    if (has_lengths) continue;
    expect_continuation(c, random);
    ++continued;
  }
  EXPECT_GT(continued, gradients / 3);
  EXPECT_GE(both_masks, gradients / 20);
}

// The derivative of a loss over outputs and lse, element by element.
TEST(LinearGrid, TheReferenceAgreesWithFiniteDifferences) {
  const std::string methods[] = {"favor(5,exponent=-0.05)",
                                 "favor(5,hyperbolic)",
                                 "favor(5,trigonometric)",
                                 "linear(elu)",
                                 "linear(relu)",
                                 "linear(taylor)",
                                 "linear(elu,normalized=no)"};
  int compared = 0;
  for (const std::string& method : methods)
    for (const char* mask : {"", ":mask=causal"}) {
      Case c(parse_descriptor("h2/1q4k4d3v2:f64:scale=0.3" + std::string(mask) +
                              ":method=" + method + ":backward=lse"));
      SCOPED_TRACE(method + mask);
      if (method == "linear(relu)")  // a feature that all tokens have, so that no sum is 0
        for (Tensor* t : {&c.query, &c.key})
          for (size_t i = 0; i < t->values<double>().size(); i += 3)
            t->values<double>()[i] = 1 + std::abs(t->values<double>()[i]);
      const GradientCase g(c);
      check::Incoming incoming = g.for_reference();
      // Sums of trigonometric weights may be negative: there is no lse then.
      const bool has_lse = !method.ends_with("trigonometric)") && !method.ends_with("no)");
      if (!has_lse) incoming.d_lse = {};
      const auto loss = [&] {
        const check::Problem p = c.for_reference();
        const auto r = check::FeatureLoops<long double>(p, nullptr).run();
        long double sum = 0;
        for (size_t i = 0; i < r.output.size(); ++i)
          sum += r.output[i] * g.d_output.values<double>()[i];
        for (size_t i = 0; has_lse && i < r.lse.size(); ++i)
          sum += r.lse[i] * g.d_lse.values<double>()[i];
        return sum;
      };
      const check::Problem p = c.for_reference();
      const auto r = check::FeatureLoops<long double>(p, &incoming).run();
      const auto expect_slopes = [&](Tensor& input, const std::vector<long double>& gradient) {
        ASSERT_EQ(static_cast<size_t>(input.count()), gradient.size());
        for (size_t i = 0; i < gradient.size(); ++i, ++compared) {
          double& x = input.values<double>()[i];
          const double at = x, step = 0x1p-17;
          x = at + step;
          const long double above = loss();
          x = at - step;
          const long double below = loss();
          x = at;
          const auto slope = static_cast<double>((above - below) / (2 * step));
          // The third derivative times step^2 / 6.
          EXPECT_NEAR(slope, static_cast<double>(gradient[i]), 1e-7 * (1 + std::abs(slope))) << i;
        }
      };
      expect_slopes(c.query, r.d_query);
      expect_slopes(c.key, r.d_key);
      expect_slopes(c.value, r.d_value);
    }
  EXPECT_EQ(compared, 14 * (24 + 12 + 8));  // every element of every input
}

}  // namespace
}  // namespace laws
