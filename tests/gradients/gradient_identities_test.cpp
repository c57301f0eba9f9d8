// Identities between gradients, each where it holds.
//
// Where a relation holds up to rounding, its tolerance follows from the tolerances of its tensors:
// an error e in g changes <x, g> by at most |x| |e| (2-norms), and sums of n elements of g by at
// most sqrt(n) |e|.
#include <gtest/gtest.h>

#include <cmath>

#include "check/tolerance/gradient_tolerance.h"
#include "gradients/gradient_problems.h"

namespace laws {
namespace {

double dot(const TensorView& a, const TensorView& b) {
  const std::vector<double> x = values_of(a), y = values_of(b);
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i] * y[i];
  return sum;
}
double norm(const TensorView& a) { return std::sqrt(dot(a, a)); }
double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double y : x) sum += y * y;
  return std::sqrt(sum);
}
// The norm of the error that a tensor may have.
double error_of(const Expectation& e) {
  return std::sqrt(static_cast<double>(e.truth.size())) * e.budget().rms;
}

// A problem, its gradients and their error bounds.
struct Solved {
  Forward f;
  rapt::Gradients g;
  GradientExpectations e;
  double scale;
  Solved(const Case& c, const GradientCase& of)
      : f(c),
        g(backward(f, of)),
        e(gradient_expectations(c.for_reference(), of.for_reference())),
        scale(c.descriptor.scale.value_or(1 /
                                          std::sqrt(static_cast<double>(c.descriptor.head_dim)))) {}
};

// Values beyond 65,504 overflow f16; normalisers with unbounded weights use f32 gradients and
// outputs.
bool without_overflow(Descriptor& d) {
  if (d.dtype == DType::f16 && std::holds_alternative<ReluReference>(d.normalizer)) {
    d.output_dtype = DType::f32;
    d.backward.f32 = true;
  }
  return true;
}

// <d_query, query> = <d_key, key> = scale d_scale: whatever the options, unless rows are divided by
// their lengths; with relative positions the products of tables count, too.
TEST(GradientIdentities, QueryKeyAndScale) {
  const auto fits = [](Descriptor& d) {
    if (d.rows.cosine) return false;
    // The sum of a query and its bias, and a row after rotary embedding, are rounded to the inputs'
    // dtype; in 16 bits these roundings are larger than those of the gradients.
    const auto& relative = d.relative;
    if (rapt::size_of(d.dtype) == 2 && (d.rows.any() || relative[RelativeSpec::content].there ||
                                        relative[RelativeSpec::position].there))
      return false;
    return without_overflow(d);
  };
  for_gradient_problems(300, fits, [](const Case& c, const GradientCase& of, Random&) {
    const Solved s(c, of);
    // What a table adds to <d, t>; 0 without it.
    double by_tables = 0;
    const auto of_table = [&](RelativeSpec::Part part, Tensor rapt::Gradients::*gradient) {
      const RelativeTable& table = c.descriptor.relative[part];
      if (!table.there) return 0.0;
      by_tables += norm(table.numbers) * error_of(s.e.relative[part]);
      return dot(s.g.*gradient, table.numbers);
    };
    const double key_rows = of_table(RelativeSpec::keys, &rapt::Gradients::d_key_rows),
                 query_rows = of_table(RelativeSpec::queries, &rapt::Gradients::d_query_rows),
                 content = of_table(RelativeSpec::content, &rapt::Gradients::d_content_bias),
                 position = of_table(RelativeSpec::position, &rapt::Gradients::d_position_bias);
    // Every term of a product has two factors, each with a gradient.
    const double by_query = norm(c.query) * error_of(s.e.query),
                 by_key = norm(c.key) * error_of(s.e.key);
    const double all = dot(s.g.d_query, c.query) + content + position + query_rows;
    EXPECT_NEAR(all, dot(s.g.d_key, c.key) + key_rows, by_query + by_key + by_tables);
    EXPECT_NEAR(all, s.scale * get(s.g.d_scale, {}),
                by_query + by_tables + std::abs(s.scale) * s.e.scale.budget().max);
  });
}

// <d_value, value> + <d_value_rows, value_rows> = <d_output, output>: whatever the options.
TEST(GradientIdentities, ValueAndOutput) {
  for_gradient_problems(200, without_overflow, [](const Case& c, const GradientCase& of, Random&) {
    const Solved s(c, of);
    const Expectations forward = expectations(c.for_reference());
    double of_values = dot(s.g.d_value, c.value), by_values = norm(c.value) * error_of(s.e.value);
    if (const RelativeTable& rows = c.descriptor.relative[RelativeSpec::values]; rows.there) {
      of_values += dot(s.g.d_value_rows, rows.numbers);
      by_values += norm(rows.numbers) * error_of(s.e.relative[RelativeSpec::values]);
    }
    EXPECT_NEAR(of_values, dot(of.d_output, s.f.result.output),
                by_values + norm(of.d_output) * error_of(forward.output));
  });
}

// sum_j d_value_j = sum_i d_output_i over the rows that have an allowed key: without dropout, for
// weights that sum to 1.
TEST(GradientIdentities, SumOfValues) {
  const auto without_dropout = [](Descriptor& d) {
    d.dropout = 0;
    d.dropout_seed = 0;
    d.normalizer = {};
    return d.value_dim > 0;
  };
  for_gradient_problems(150, without_dropout, [](const Case& c, const GradientCase& of, Random&) {
    const Solved s(c, of);
    const auto columns = static_cast<size_t>(c.descriptor.value_dim);
    std::vector<double> sums(columns, 0);
    const std::vector<double> d_value = values_of(s.g.d_value), d_output = values_of(of.d_output),
                              lse = values_of(s.f.result.statistic);
    for (size_t i = 0; i < d_value.size(); ++i) sums[i % columns] += d_value[i];
    for (size_t i = 0; i < d_output.size(); ++i)
      if (!std::isinf(lse[i / columns])) sums[i % columns] -= d_output[i];
    const double rows = static_cast<double>(d_value.size()) / static_cast<double>(columns);
    EXPECT_LE(norm(sums), std::sqrt(rows) * error_of(s.e.value));
  });
}

// The problem with a bias for every pair, whose gradient is that of the scores.
bool with_bias_of_all_pairs(Descriptor& d) {
  if (d.packed > 0) return false;
  d.has_bias = true;
  d.bias_first = false;  // true: its gradient would be that of the score functions' inputs
  d.bias_dims = d.leading;
  d.bias_dims.insert(d.bias_dims.end(), {d.q_len, d.k_len});
  d.bias.repeated = -1;
  return true;
}

// sum_j d_score_ij = 0 for every query: without a gradient of lse, for weights that sum to 1.
TEST(GradientIdentities, SumOfScores) {
  const auto fits = [](Descriptor& d) {
    d.backward.d_lse = false;
    d.normalizer = {};
    return with_bias_of_all_pairs(d);
  };
  for_gradient_problems(150, fits, [](const Case& c, const GradientCase& of, Random&) {
    const Solved s(c, of);
    const auto k_len = static_cast<size_t>(c.descriptor.k_len);
    const std::vector<double> d_scores = values_of(s.g.d_bias);
    if (d_scores.empty()) return;
    std::vector<double> sums(d_scores.size() / k_len, 0);
    for (size_t i = 0; i < d_scores.size(); ++i) sums[i / k_len] += d_scores[i];
    EXPECT_LE(norm(sums), std::sqrt(static_cast<double>(k_len)) * error_of(s.e.bias));
  });
}

// sum_j d_key_j = 0: without a gradient of lse, softcap, rows of queries and keys that change, for
// weights that sum to 1.
TEST(GradientIdentities, SumOfKeys) {
  const auto fits = [](Descriptor& d) {
    d.backward.d_lse = false;
    d.scores.clear();
    d.normalizer = {};
    return !d.relative[RelativeSpec::queries].there && !d.rows.any();
  };
  for_gradient_problems(150, fits, [](const Case& c, const GradientCase& of, Random&) {
    const Solved s(c, of);
    const auto k_len = static_cast<size_t>(c.descriptor.k_len),
               head_dim = static_cast<size_t>(c.descriptor.head_dim);
    const std::vector<double> d_key = values_of(s.g.d_key);
    if (d_key.empty()) return;
    std::vector<double> sums(d_key.size() / k_len, 0);
    for (size_t i = 0; i < d_key.size(); ++i)
      sums[i / (k_len * head_dim) * head_dim + i % head_dim] += d_key[i];
    EXPECT_LE(norm(sums), std::sqrt(static_cast<double>(k_len)) * error_of(s.e.key));
  });
}

// d lse / d score = weight: the gradient of lse alone gives the weights of the forward pass.
TEST(GradientIdentities, LseGivesTheWeights) {
  const auto fits = [](Descriptor& d) {
    if (d.normalizer != Normalizer(SoftmaxPlusOneReference())) d.normalizer = {};
    d.backward.d_lse = true;
    d.captures.weights.reset();
    return with_bias_of_all_pairs(d);
  };
  for_gradient_problems(100, fits, [](const Case& c, const GradientCase& of, Random&) {
    Forward f(c);
    const Tensor zero =
        filled(of.d_output.dtype(), Dims(of.d_output.dims().begin(), of.d_output.dims().end()), 0);
    const Tensor one =
        filled(of.d_lse.dtype(), Dims(of.d_lse.dims().begin(), of.d_lse.dims().end()), 1);
    BackwardInputs inputs = of.inputs(f.result.state());
    inputs.d_output = zero;
    inputs.d_statistic = one;
    const rapt::Gradients g = backward(f, inputs, of.request());
    AttentionOptions options = f.options;
    options.weights.emplace();
    const AttentionResult forward =
        scaled_dot_product_attention(f.in.query, f.in.key, f.in.value, options);
    Incoming incoming;
    incoming.d_output = zero;
    incoming.d_lse = one;
    const Problem problem = c.for_reference();
    const double allowed = gradient_expectations(problem, incoming).bias.budget().max +
                           expectations(problem).weights.budget().max;
    const std::vector<double> d_scores = values_of(g.d_bias), weights = values_of(forward.weights);
    for (size_t i = 0; i < d_scores.size() && !testing::Test::HasFailure(); ++i)
      EXPECT_NEAR(d_scores[i], weights[i], allowed) << i;
  });
}

// The gradients of a sum are the sum of the gradients.
TEST(GradientIdentities, LinearInWhatComesFromBehind) {
  const auto fits = [](Descriptor& d) {
    d.backward.d_lse = false;
    d.captures.weights.reset();
    return rapt::size_of(d.dtype) > 2;
  };
  for_gradient_problems(100, fits, [](const Case& c, const GradientCase& of, Random& random) {
    Forward f(c);
    // Multiples of 2^-8, whose sums are exact.
    const auto short_numbers = [](const Tensor& t) {
      return mapped(t, [](double x, auto) { return std::round(x * 256) / 256; });
    };
    const Tensor a = short_numbers(of.d_output);
    const Tensor b =
        short_numbers(random_normal(random, a.dtype(), Dims(a.dims().begin(), a.dims().end())));
    const Tensor sum = mapped(a, [&](double x, auto i) { return x + get(b, i); });
    BackwardInputs inputs = of.inputs(f.result.state());
    const auto gradients_of = [&](const Tensor& d_output) {
      inputs.d_output = d_output;
      return backward(f, inputs, of.request());
    };
    const auto allowed = [&](const Tensor& d_output) {
      Incoming incoming;
      incoming.d_output = d_output;
      return gradient_expectations(c.for_reference(), incoming);
    };
    const rapt::Gradients of_a = gradients_of(a), of_b = gradients_of(b),
                          of_sum = gradients_of(sum);
    const GradientExpectations ea = allowed(a), eb = allowed(b), es = allowed(sum);
    const auto agree = [&](const char* name, Tensor rapt::Gradients::*tensor,
                           Expectation GradientExpectations::*expected) {
      const double most =
          (ea.*expected).budget().max + (eb.*expected).budget().max + (es.*expected).budget().max;
      const std::vector<double> x = values_of(of_a.*tensor), y = values_of(of_b.*tensor),
                                z = values_of(of_sum.*tensor);
      for (size_t i = 0; i < z.size() && !testing::Test::HasFailure(); ++i)
        EXPECT_NEAR(x[i] + y[i], z[i], most) << name << " " << i;
    };
    agree("d_query", &rapt::Gradients::d_query, &GradientExpectations::query);
    agree("d_key", &rapt::Gradients::d_key, &GradientExpectations::key);
    agree("d_value", &rapt::Gradients::d_value, &GradientExpectations::value);
    if (of_a.d_bias.defined())
      agree("d_bias", &rapt::Gradients::d_bias, &GradientExpectations::bias);
    agree("d_scale", &rapt::Gradients::d_scale, &GradientExpectations::scale);
  });
}

// A query without keys and a key without queries have gradients of exactly 0, and so has the bias
// of masked pairs.
TEST(GradientIdentities, ZeroWhereNothingIsSeen) {
  int64_t zeros = 0;
  for_gradient_problems(300, without_overflow, [&](const Case& c, const GradientCase& of, Random&) {
    const Problem p = c.for_reference();
    const Sizes sizes = sizes_of(p);
    Forward f(c);
    const rapt::Gradients g = backward(f, of);
    std::vector<char> query(values_of(g.d_query).size(), 0), key(values_of(g.d_key).size(), 0),
        value(values_of(g.d_value).size(), 0), bias(c.bias.defined() ? c.bias.count() : 0, 0);
    attention<double>(p, {}, {}, [&](const check::Row<double>& row) {
      const auto mark = [&](std::vector<char>& seen, const TensorView& t, int64_t r,
                            int64_t width) {
        const Places at = places_of(t, row.head, sizes);
        for (int64_t x = 0; x < width; ++x) seen[at(r, x)] = 1;
      };
      for (const check::Pair<double>& pair : row.pairs) {
        mark(query, p.query, row.index, sizes.head_dim);
        mark(key, p.key, pair.key, sizes.head_dim);
        mark(value, p.value, pair.key, sizes.value_dim);
        if (c.bias.defined()) bias[places_of(p.bias, row.head, sizes)(row.index, pair.key)] = 1;
      }
    });
    const auto expect_zero = [&](const char* name, const Tensor& t, const std::vector<char>& seen) {
      const std::vector<double> x = values_of(t);
      for (size_t i = 0; i < x.size(); ++i)
        if (!seen[i]) {
          ++zeros;
          EXPECT_EQ(x[i], 0) << name << " " << i;
        }
    };
    expect_zero("d_query", g.d_query, query);
    expect_zero("d_key", g.d_key, key);
    expect_zero("d_value", g.d_value, value);
    if (c.bias.defined()) expect_zero("d_bias", g.d_bias, bias);
  });
  EXPECT_GT(zeros, 100);
}

}  // namespace
}  // namespace laws
