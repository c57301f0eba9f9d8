// The tolerances of gradients against wrong gradients, and the reference where it can be worked out
// by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "check/compare/gradient_case.h"
#include "check/tolerance/gradient_tolerance.h"
#include "check/tolerance/two_parts.h"

namespace check {
namespace {

std::vector<const Expectation*> parts_of(const GradientExpectations& all) {
  std::vector<const Expectation*> parts = {&all.query, &all.key,   &all.value,
                                           &all.bias,  &all.scale, &all.numbers};
  for (const Expectation& table : all.relative) parts.push_back(&table);
  return parts;
}

// With products of two parts, also where no tile registers multiply.
GradientExpectations expectations_of(const std::string& line, bool in_two_parts) {
  const Case c(parse_descriptor(line));
  const GradientCase g(c);
  Problem problem = c.for_reference();
  if (in_two_parts) problem.left_out = left_out_of_two_parts(c.descriptor.dtype);
  return gradient_expectations(problem, g.for_reference());
}

// A result that is off by `relative` of the largest element anywhere is found.
void expect_tight(const std::string& line, double relative, bool in_two_parts = false) {
  SCOPED_TRACE(line);
  const GradientExpectations all = expectations_of(line, in_two_parts);
  int part = 0;
  for (const Expectation* of_part : parts_of(all)) {
    SCOPED_TRACE(part++);
    const Expectation& e = *of_part;
    std::vector<double> right(e.plain.begin(), e.plain.end());
    EXPECT_TRUE(e.verdict(right, "gradient").ok);
    if (right.empty()) continue;
    double largest = 0;
    for (const double x : right) largest = std::max(largest, std::abs(x));
    for (size_t i = 0; i < right.size(); i += 5) {
      std::vector<double> wrong = right;
      wrong[i] += relative * largest;
      EXPECT_FALSE(e.verdict(wrong, "gradient").ok) << i << " " << e.budget().max / largest;
      wrong[i] = NAN;
      EXPECT_FALSE(e.verdict(wrong, "gradient").ok) << i;
    }
    EXPECT_FALSE(e.verdict(std::span(right).first(right.size() - 1), "gradient").ok);
  }
}

TEST(GradientTolerance, FindsWrongGradients) {
  expect_tight(
      "h2q12k30d8:mask=causal(bottom-right):bias:score=softcap(5):weights:backward=lse:seed=4",
      1e-4);
  expect_tight("h4/2q40k50d16:f64:bias:score=softcap(5):seed=5", 1e-12);
  expect_tight("h2q12k30d8:f16:bias:score=softcap(5):seed=6", 1e-2);
  expect_tight("h2q12k30d8:bf16:bias:score=softcap(5):seed=6", 0.1);
  expect_tight("h2q12k30d8:bf16:bias:score=softcap(5):precision=fma:backward=f32:seed=6", 0.05);
  expect_tight("h2q12k30d8:bias:score=softcap(5):weights:backward=lse:seed=4", 5e-3, true);
  expect_tight("h2q12k30d8:f16:bias:score=softcap(5):seed=6", 1e-2, true);
  // Sums that cancel have no relative error to speak of: of this seed none does.
  const std::string all = "relative=keys+queries+values+content+position(9)";
  expect_tight("h2q12k30d8:seed=13:" + all, 1e-4);
  expect_tight("h2q40k50d16:f64:seed=13:" + all, 1e-12);
  expect_tight("h2q12k30d8:f16:seed=13:" + all, 1e-2);
  expect_tight("h2q12k30d8:bf16:seed=13:" + all, 0.1);
  const std::string rows = "scale=2:rows=cosine+rotary(query=5,magnitude=1.5)";
  expect_tight("h2q12k30d8:seed=13:" + rows, 1e-3);
  expect_tight("h2q40k50d16:f64:seed=13:" + rows, 1e-11);
  // In 16 bits: a seed for which no element of a row lies halfway between two numbers.
  expect_tight("h2q12k30d8:f16:seed=14:" + rows, 1e-2);
  expect_tight("h2q12k30d8:bf16:seed=14:" + rows, 0.1);
}

// One query, two keys of weights 1/4 and 3/4, values 1 and 2, a gradient of 1: all by hand.
TEST(GradientReference, TwoKeys) {
  Tensor query = filled(DType::f64, {1, 1}, 1), key = filled(DType::f64, {2, 1}, 0),
         value = filled(DType::f64, {2, 1}, 1), d_output = filled(DType::f64, {1, 1}, 1);
  set(key, Dims{1, 0}, std::log(3.0));
  set(value, Dims{1, 0}, 2);
  Problem problem;
  problem.query = query;
  problem.key = key;
  problem.value = value;
  problem.scale = 1;
  Incoming incoming;
  incoming.d_output = d_output;
  const Gradients<double> g = gradients<double>(problem, incoming);
  const double ds = 0.25 * 0.75;  // p0 p1 (v1 - v0), and its negative
  EXPECT_NEAR(g.value[0], 0.25, 1e-15);
  EXPECT_NEAR(g.value[1], 0.75, 1e-15);
  EXPECT_NEAR(g.key[0], -ds, 1e-15);
  EXPECT_NEAR(g.key[1], ds, 1e-15);
  EXPECT_NEAR(g.query[0], ds * std::log(3.0), 1e-15);
  EXPECT_NEAR(g.scale, ds * std::log(3.0), 1e-15);
}

// A masked key contributes nothing, even if it is NaN; a NaN in an allowed pair shows.
TEST(GradientReference, ExcludedPairsAddNothing) {
  const Case c(parse_descriptor("q4k4d2:f64:mask=causal(-1):seed=3"));
  const GradientCase g(c);
  const auto nan_row = [](Tensor& t, int64_t row) {
    for (int64_t d = 0; d < 2; ++d) set(t, Dims{row, d}, NAN);
  };
  Tensor query = Tensor::copy_of(c.query), key = Tensor::copy_of(c.key),
         value = Tensor::copy_of(c.value), d_output = Tensor::copy_of(g.d_output);
  nan_row(query, 0);  // a query without allowed keys
  nan_row(d_output, 0);
  nan_row(key, 3);  // masked for every query
  nan_row(value, 3);
  Problem problem = c.for_reference();
  problem.query = query;
  problem.key = key;
  problem.value = value;
  Incoming incoming;
  incoming.d_output = d_output;
  const Gradients<double> got = gradients<double>(problem, incoming);
  for (const double x : got.query) EXPECT_TRUE(std::isfinite(x));
  for (int64_t d = 0; d < 2; ++d) {
    EXPECT_EQ(got.query[static_cast<size_t>(d)], 0);
    EXPECT_EQ(got.key[static_cast<size_t>(6 + d)], 0);
    EXPECT_EQ(got.value[static_cast<size_t>(6 + d)], 0);
  }
  nan_row(d_output, 3);  // this query attends to the first three keys
  const Gradients<double> shown = gradients<double>(problem, incoming);
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(shown.value[i])) << i;
}

// The loss over some rows is that of gradients that are 0 elsewhere.
TEST(GradientReference, SampleIsAPartOfTheLoss) {
  const Case c(parse_descriptor("h2q9k7d3:mask=causal:weights:backward=lse:seed=1"));
  Sample sample;
  sample.heads = {1};
  sample.rows = {2, 3, 7};
  const GradientCase some(c, sample);
  const Gradients<double> of_rows =
      gradients<double>(c.for_reference(), some.for_reference(), sample);
  const Gradients<double> of_all = gradients<double>(c.for_reference(), some.for_reference());
  EXPECT_EQ(of_rows.query, of_all.query);
  EXPECT_EQ(of_rows.key, of_all.key);
  EXPECT_EQ(of_rows.value, of_all.value);
  EXPECT_NE(of_rows.key, gradients<double>(c.for_reference(), GradientCase(c).for_reference()).key);
}

}  // namespace
}  // namespace check
