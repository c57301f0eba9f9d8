#pragma once
// What tests of compositions share (docs/compositions.md): small tensors, plain loops, calls with
// their gradients, and the comparison of both.
//
// All in f64. Rows of several heads are [heads, n, dim]; a projection's are [1, n, heads dim].
#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "rapt/backward.h"
#include "rapt/mask/causal.h"
#include "support/differences.h"

namespace laws {

using Tensors = std::vector<Tensor>;

inline const rapt::Causal kCausal;

inline Tensor zeros(int64_t a, int64_t b, int64_t c) {
  return check::filled(DType::f64, {a, b, c}, 0);
}

template <class T>  // Tensor or const Tensor, of rank 3
auto& at(T& t, int64_t a, int64_t b, int64_t c) {
  return t.template values<double>()[static_cast<size_t>((a * t.dim(1) + b) * t.dim(2) + c)];
}

// Calls visit(a, b, c) for every element.
template <class Visit>
inline void for_each(const Tensor& t, const Visit& visit) {
  for (int64_t a = 0; a < t.dim(0); ++a)
    for (int64_t b = 0; b < t.dim(1); ++b)
      for (int64_t c = 0; c < t.dim(2); ++c) visit(a, b, c);
}

inline double dot(const Tensor& a, const Tensor& b) {
  double sum = 0;
  for_each(a, [&](auto... i) { sum += at(a, i...) * at(b, i...); });
  return sum;
}

// The same numbers as one head of long rows and back: [heads, n, dim] and [1, n, heads dim].
inline Tensor joined(const Tensor& heads) {
  Tensor rows = zeros(1, heads.dim(1), heads.dim(0) * heads.dim(2));
  for_each(heads, [&](int64_t h, int64_t i, int64_t d) {
    at(rows, 0, i, h * heads.dim(2) + d) = at(heads, h, i, d);
  });
  return rows;
}
inline Tensor split(const Tensor& rows, int64_t heads) {
  Tensor apart = zeros(heads, rows.dim(1), rows.dim(2) / heads);
  for_each(apart, [&](int64_t h, int64_t i, int64_t d) {
    at(apart, h, i, d) = at(rows, 0, i, h * apart.dim(2) + d);
  });
  return apart;
}

// ---- plain loops ----

// query key^T / sqrt(head_dim), heads of keys grouped: [heads, n, n].
inline Tensor plain_scores(const Tensor& query, const Tensor& key) {
  Tensor scores = zeros(query.dim(0), query.dim(1), key.dim(1));
  for_each(scores, [&](int64_t h, int64_t i, int64_t j) {
    const int64_t kv = h / (query.dim(0) / key.dim(0));
    for (int64_t d = 0; d < query.dim(2); ++d)
      at(scores, h, i, j) += at(query, h, i, d) * at(key, kv, j, d);
    at(scores, h, i, j) /= std::sqrt(static_cast<double>(query.dim(2)));
  });
  return scores;
}

// Over the keys j for which allowed(i, j).
inline Tensor plain_softmax(const Tensor& scores,
                            const std::function<bool(int64_t i, int64_t j)>& allowed) {
  Tensor weights = zeros(scores.dim(0), scores.dim(1), scores.dim(2));
  for (int64_t h = 0; h < scores.dim(0); ++h)
    for (int64_t i = 0; i < scores.dim(1); ++i) {
      double sum = 0;
      for (int64_t j = 0; j < scores.dim(2); ++j)
        if (allowed(i, j)) sum += at(weights, h, i, j) = std::exp(at(scores, h, i, j));
      for (int64_t j = 0; j < scores.dim(2); ++j) at(weights, h, i, j) /= sum;
    }
  return weights;
}

inline Tensor plain_causal_softmax(const Tensor& scores) {
  return plain_softmax(scores, [](int64_t i, int64_t j) { return j <= i; });
}

inline Tensor plain_product(const Tensor& weights, const Tensor& value) {
  Tensor output = zeros(weights.dim(0), weights.dim(1), value.dim(2));
  for_each(output, [&](int64_t h, int64_t i, int64_t d) {
    const int64_t kv = h / (weights.dim(0) / value.dim(0));
    for (int64_t j = 0; j < value.dim(1); ++j)
      at(output, h, i, d) += at(weights, h, i, j) * at(value, kv, j, d);
  });
  return output;
}

inline Tensor plain_attention(const Tensor& query, const Tensor& key, const Tensor& value) {
  return plain_product(plain_causal_softmax(plain_scores(query, key)), value);
}

// sum_a mix[0, a, b] from[a], for each b.
inline Tensor plain_mixture(const Tensor& from, const Tensor& mix) {
  Tensor to = zeros(mix.dim(2), from.dim(1), from.dim(2));
  for_each(to, [&](int64_t b, int64_t i, int64_t j) {
    for (int64_t a = 0; a < mix.dim(1); ++a)
      at(to, b, i, j) += at(mix, 0, a, b) * at(from, a, i, j);
  });
  return to;
}

// ---- calls ----

struct Called {
  AttentionResult forward;
  rapt::Gradients gradients;
};

// A call and, with the gradient of its output, its backward call.
inline Called call(const TensorView& query, const TensorView& key, const TensorView& value,
                   const AttentionOptions& options,
                   const std::function<Tensor(const Tensor& output)>& d_output) {
  Called c{scaled_dot_product_attention(query, key, value, options), {}};
  const Tensor gradient = d_output(c.forward.output);
  rapt::BackwardInputs inputs;
  inputs.state = c.forward.state();
  inputs.d_output = gradient;
  rapt::BackwardRequest request;
  request.bias = options.bias.defined();
  c.gradients = scaled_dot_product_attention_backward(query, key, value, options, inputs, request);
  return c;
}

inline AttentionOptions causal_options() {
  AttentionOptions options;
  options.masks = {&kCausal};
  return options;
}

// ---- comparison ----

struct Composed {
  Tensor output;
  Tensors gradients;  // of sum(output o d_output), by the inputs
};

struct Composition {
  std::function<Tensor(const Tensors& inputs)> plain;
  std::function<Composed(const Tensors& inputs, const Tensor& d_output)> composed;
};

inline double furthest(const Tensor& got, const Tensor& expected) {
  EXPECT_EQ((Dims(got.dims().begin(), got.dims().end())),
            (Dims(expected.dims().begin(), expected.dims().end())));
  double largest = 0;
  for_each(expected, [&](auto... i) {
    const double d = std::fabs(at(got, i...) - at(expected, i...));
    largest = d <= largest ? largest : d;  // a NaN is the largest
  });
  return largest;
}

// Numbers are normal. A score is a sum of at most 12 products of a few units each, off by 100 u; so
// is, relatively, a weight; and an output, of at most three mixed means of values, is some units.
constexpr double kForward = 0x1p-53 * 4e3;

inline void expect_formula(const Composition& c, const Tensors& inputs, Random& random) {
  const Tensor expected = c.plain(inputs);
  const Tensor d_output =
      random_normal(random, DType::f64, Dims(expected.dims().begin(), expected.dims().end()));
  EXPECT_LE(furthest(c.composed(inputs, d_output).output, expected), kForward);
}

inline void expect_differences(const Composition& c, Tensors inputs, Random& random) {
  const Tensor output = c.plain(inputs);
  const Tensor d_output =
      random_normal(random, DType::f64, Dims(output.dims().begin(), output.dims().end()));
  const Tensors got = c.composed(inputs, d_output).gradients;
  ASSERT_EQ(got.size(), inputs.size());
  constexpr double kStep = 1e-5;
  for (size_t n = 0; n < inputs.size(); ++n) {
    Tensor expected = zeros(inputs[n].dim(0), inputs[n].dim(1), inputs[n].dim(2));
    for_each(expected, [&](auto... i) {
      at(expected, i...) = central_difference(at(inputs[n], i...), kStep,
                                              [&] { return dot(c.plain(inputs), d_output); });
    });
    // step^2 / 6 = 2e-11 of a third derivative of at most some thousands, and 4,000 u of a loss of
    // about 10 over the step.
    EXPECT_LE(furthest(got[n], expected), 1e-7) << "of input " << n;
    EXPECT_GT(furthest(got[n], zeros(got[n].dim(0), got[n].dim(1), got[n].dim(2))), 1e-3)
        << "of input " << n << " is zero";
  }
}

// Long enough for several tiles, and short enough for differences.
inline void expect_law(const Composition& c,
                       const std::function<Tensors(int64_t n, Random&)>& draw) {
  Random random(base_seed());
  for (const int64_t n : {1, 17, 150}) expect_formula(c, draw(n, random), random);
  expect_differences(c, draw(6, random), random);
}

inline Tensor normal(Random& random, int64_t a, int64_t b, int64_t c) {
  return random_normal(random, DType::f64, {a, b, c});
}

}  // namespace laws
