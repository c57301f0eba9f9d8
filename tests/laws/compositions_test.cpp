// Compositions of calls (docs/compositions.md) equal their formulas in plain loops. Their gradients
// equal finite differences of the plain loops.
#include <gtest/gtest.h>

#include "laws/compositions.h"
#include "rapt/score/softcap.h"

namespace laws {
namespace {

// Query heads 2h and 2h + 1 are the pair of output head h; pairs of queries share pairs of keys.
// The factor lambda is the last input, [1, 1, 1].
TEST(Compositions, differential_attention) {
  const auto second_from_first = [](const Tensor& parts, double lambda) {
    Tensor output = zeros(parts.dim(0) / 2, parts.dim(1), parts.dim(2));
    for_each(output, [&](int64_t h, int64_t i, int64_t d) {
      at(output, h, i, d) = at(parts, 2 * h, i, d) - lambda * at(parts, 2 * h + 1, i, d);
    });
    return output;
  };
  Composition c;
  c.plain = [&](const Tensors& in) {
    const Tensor weights = plain_causal_softmax(plain_scores(in[0], in[1]));
    return plain_product(second_from_first(weights, at(in[3], 0, 0, 0)), in[2]);
  };
  c.composed = [&](const Tensors& in, const Tensor& d_output) {
    const double lambda = at(in[3], 0, 0, 0);
    Tensor d_lambda = zeros(1, 1, 1);
    Called one = call(in[0], in[1], in[2], causal_options(), [&](const Tensor& parts) {
      Tensor d_parts = zeros(parts.dim(0), parts.dim(1), parts.dim(2));
      for_each(d_output, [&](int64_t h, int64_t i, int64_t d) {
        at(d_parts, 2 * h, i, d) = at(d_output, h, i, d);
        at(d_parts, 2 * h + 1, i, d) = -lambda * at(d_output, h, i, d);
        at(d_lambda, 0, 0, 0) -= at(d_output, h, i, d) * at(parts, 2 * h + 1, i, d);
      });
      return d_parts;
    });
    Composed all{second_from_first(one.forward.output, lambda), {}};
    all.gradients.push_back(std::move(one.gradients.d_query));
    all.gradients.push_back(std::move(one.gradients.d_key));
    all.gradients.push_back(std::move(one.gradients.d_value));
    all.gradients.push_back(std::move(d_lambda));
    return all;
  };
  for (const int64_t kv_heads : {1, 2})
    expect_law(c, [&](int64_t n, Random& random) {
      Tensors in;
      in.push_back(normal(random, 8, n, 5));
      in.push_back(normal(random, 2 * kv_heads, n, 5));
      in.push_back(normal(random, kv_heads, n, 10));
      in.push_back(check::filled(DType::f64, {1, 1, 1}, 0.6));
      return in;
    });
}

// Memory holds the first head of every pair, then every second: [2, heads, n, d], as a view
// [heads, 2, n, d].
TEST(Compositions, differential_attention_of_heads_in_halves) {
  Random random(base_seed());
  const int64_t heads = 3, n = 40, d = 5;
  const Tensor query = random_normal(random, DType::f64, {2, heads, n, d});
  const Tensor key = random_normal(random, DType::f64, {2, heads, n, d});
  const Tensor value = random_normal(random, DType::f64, {heads, 1, n, 2 * d});
  const AttentionResult got = scaled_dot_product_attention(
      query.view().transposed(0, 1), key.view().transposed(0, 1), value, causal_options());
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t part = 0; part < 2; ++part) {
      const auto one = [&](const Tensor& rows) {
        return rows.view().slice(0, part, part + 1).slice(1, h, h + 1);
      };
      const AttentionResult expected = scaled_dot_product_attention(
          one(query), one(key), value.view().slice(0, h, h + 1), causal_options());
      EXPECT_TRUE(same_bits(got.output.view().slice(0, h, h + 1).slice(1, part, part + 1),
                            expected.output));
    }
}

// Inputs: query, key, value, [1, key heads, heads] before and [1, heads, value heads] after.
Composition talking_heads() {
  Composition c;
  c.plain = [](const Tensors& in) {
    const Tensor scores = plain_mixture(plain_scores(in[0], in[1]), in[3]);
    return plain_product(plain_mixture(plain_causal_softmax(scores), in[4]), in[2]);
  };
  c.composed = [](const Tensors& in, const Tensor& d_output) {
    const Tensor &query = in[0], &key = in[1], &value = in[2], &before = in[3], &after = in[4];
    const int64_t heads = before.dim(2), n = query.dim(1), d = query.dim(2), e = value.dim(2);
    Tensor queries = zeros(heads, n, query.dim(0) * d);
    for_each(queries, [&](int64_t b, int64_t i, int64_t x) {
      at(queries, b, i, x) = at(before, 0, x / d, b) * at(query, x / d, i, x % d);
    });
    AttentionOptions options = causal_options();
    options.scale = 1 / std::sqrt(static_cast<double>(d));
    Tensor d_after = zeros(1, heads, value.dim(0));
    // P_b value_c lies in head b, in the columns from c * e on.
    Called one = call(queries, joined(key), joined(value), options, [&](const Tensor& parts) {
      Tensor d_parts = zeros(heads, n, value.dim(0) * e);
      for_each(parts, [&](int64_t b, int64_t i, int64_t x) {
        at(d_parts, b, i, x) = at(after, 0, b, x / e) * at(d_output, x / e, i, x % e);
        at(d_after, 0, b, x / e) += at(parts, b, i, x) * at(d_output, x / e, i, x % e);
      });
      return d_parts;
    });
    Composed all{zeros(value.dim(0), n, e), {}};
    for_each(one.forward.output, [&](int64_t b, int64_t i, int64_t x) {
      at(all.output, x / e, i, x % e) += at(after, 0, b, x / e) * at(one.forward.output, b, i, x);
    });
    Tensor d_query = zeros(query.dim(0), n, d), d_before = zeros(1, before.dim(1), heads);
    for_each(one.gradients.d_query, [&](int64_t b, int64_t i, int64_t x) {
      const double gradient = at(one.gradients.d_query, b, i, x);
      at(d_query, x / d, i, x % d) += at(before, 0, x / d, b) * gradient;
      at(d_before, 0, x / d, b) += at(query, x / d, i, x % d) * gradient;
    });
    all.gradients.push_back(std::move(d_query));
    all.gradients.push_back(split(one.gradients.d_key, key.dim(0)));
    all.gradients.push_back(split(one.gradients.d_value, value.dim(0)));
    all.gradients.push_back(std::move(d_before));
    all.gradients.push_back(std::move(d_after));
    return all;
  };
  return c;
}

TEST(Compositions, talking_heads) {
  struct Heads {
    int64_t key, softmax, value;
  };
  for (const Heads heads : {Heads{3, 3, 3}, {2, 3, 1}})
    expect_law(talking_heads(), [&](int64_t n, Random& random) {
      Tensors in;
      in.push_back(normal(random, heads.key, n, 4));
      in.push_back(normal(random, heads.key, n, 4));
      in.push_back(normal(random, heads.value, n, 5));
      in.push_back(normal(random, 1, heads.key, heads.softmax));
      in.push_back(normal(random, 1, heads.softmax, heads.value));
      return in;
    });
}

// With the scores of all heads at hand, [heads, n, n], anything may be done to them before they are
// mixed; here a softcap. They come back as the bias of a call whose products count for nothing, and
// its d_bias is their gradient. Inputs: query, key, value and the mixture before.
TEST(Compositions, talking_heads_by_returned_scores) {
  const rapt::Softcap softcap(2);
  Composition c;
  c.plain = [&](const Tensors& in) {
    Tensor scores = plain_scores(in[0], in[1]);
    for (double& s : scores.values<double>()) s = softcap.cap * std::tanh(s / softcap.cap);
    return plain_product(plain_causal_softmax(plain_mixture(scores, in[3])), in[2]);
  };
  c.composed = [&](const Tensors& in, const Tensor& d_output) {
    const Tensor &query = in[0], &key = in[1], &before = in[3];
    const int64_t n = query.dim(1), d = query.dim(2);
    // No mask yet: -inf of a masked pair times a factor may be NaN. No value: only scores are
    // needed.
    AttentionOptions wanted;
    wanted.scores = {softcap};
    wanted.weights = rapt::WeightsRequest{};
    wanted.weights->stage = rapt::WeightsStage::scores;
    const AttentionResult first = scaled_dot_product_attention(query, key, zeros(1, n, 0), wanted);
    const Tensor& scores = first.weights;

    const Tensor mixed = plain_mixture(scores, before), nothing = zeros(before.dim(2), n, 1);
    AttentionOptions options = causal_options();
    options.scale = 0;
    options.bias = mixed;
    Called one = call(nothing, nothing, in[2], options,
                      [&](const Tensor&) { return Tensor::copy_of(d_output); });

    Tensor d_query = zeros(query.dim(0), n, d), d_key = zeros(key.dim(0), n, d);
    Tensor d_before = zeros(1, before.dim(1), before.dim(2));
    for_each(scores, [&](int64_t a, int64_t i, int64_t j) {
      double d_score = 0;
      for (int64_t b = 0; b < before.dim(2); ++b) {
        const double d_mixed = at(one.gradients.d_bias, b, i, j);
        d_score += at(before, 0, a, b) * d_mixed;
        at(d_before, 0, a, b) += at(scores, a, i, j) * d_mixed;
      }
      const double tanh = at(scores, a, i, j) / softcap.cap;
      const double d_product = d_score * (1 - tanh * tanh) / std::sqrt(static_cast<double>(d));
      for (int64_t x = 0; x < d; ++x) {
        at(d_query, a, i, x) += d_product * at(key, a, j, x);
        at(d_key, a, j, x) += d_product * at(query, a, i, x);
      }
    });
    Composed all{std::move(one.forward.output), {}};
    all.gradients.push_back(std::move(d_query));
    all.gradients.push_back(std::move(d_key));
    all.gradients.push_back(std::move(one.gradients.d_value));
    all.gradients.push_back(std::move(d_before));
    return all;
  };
  expect_law(c, [](int64_t n, Random& random) {
    Tensors in;
    in.push_back(normal(random, 3, n, 4));
    in.push_back(normal(random, 3, n, 4));
    in.push_back(normal(random, 2, n, 5));
    in.push_back(normal(random, 1, 3, 2));
    return in;
  });
}

// gated = output o sigmoid(x w). Inputs: query, key, value, x [1, n, m], w [1, m, gates]; a gate
// per element, gates = heads value_dim, or per head, gates = heads.
TEST(Compositions, gated_output) {
  const auto gate_of = [](const Tensors& in, int64_t head, int64_t i, int64_t element) {
    const Tensor &x = in[3], &w = in[4];
    const int64_t gate = w.dim(2) == in[0].dim(0) ? head : head * in[2].dim(2) + element;
    double z = 0;
    for (int64_t m = 0; m < x.dim(2); ++m) z += at(x, 0, i, m) * at(w, 0, m, gate);
    return std::pair(gate, 1 / (1 + std::exp(-z)));
  };
  const auto gated = [&](const Tensors& in, const Tensor& output) {
    Tensor to = zeros(output.dim(0), output.dim(1), output.dim(2));
    for_each(to, [&](int64_t h, int64_t i, int64_t e) {
      at(to, h, i, e) = at(output, h, i, e) * gate_of(in, h, i, e).second;
    });
    return to;
  };
  Composition c;
  c.plain = [&](const Tensors& in) { return gated(in, plain_attention(in[0], in[1], in[2])); };
  c.composed = [&](const Tensors& in, const Tensor& d_gated) {
    const Tensor &x = in[3], &w = in[4];
    Tensor d_x = zeros(1, x.dim(1), x.dim(2)), d_w = zeros(1, w.dim(1), w.dim(2));
    Called one = call(in[0], in[1], in[2], causal_options(), [&](const Tensor& output) {
      Tensor d_output = zeros(output.dim(0), output.dim(1), output.dim(2));
      for_each(output, [&](int64_t h, int64_t i, int64_t e) {
        const auto [gate, g] = gate_of(in, h, i, e);
        at(d_output, h, i, e) = at(d_gated, h, i, e) * g;
        const double d_z = at(d_gated, h, i, e) * at(output, h, i, e) * g * (1 - g);
        for (int64_t m = 0; m < x.dim(2); ++m) {
          at(d_x, 0, i, m) += d_z * at(w, 0, m, gate);
          at(d_w, 0, m, gate) += d_z * at(x, 0, i, m);
        }
      });
      return d_output;
    });
    Composed all{gated(in, one.forward.output), {}};
    all.gradients.push_back(std::move(one.gradients.d_query));
    all.gradients.push_back(std::move(one.gradients.d_key));
    all.gradients.push_back(std::move(one.gradients.d_value));
    all.gradients.push_back(std::move(d_x));
    all.gradients.push_back(std::move(d_w));
    return all;
  };
  for (const int64_t gates : {4 * 5, 4})
    expect_law(c, [&](int64_t n, Random& random) {
      Tensors in;
      in.push_back(normal(random, 4, n, 6));
      in.push_back(normal(random, 2, n, 6));
      in.push_back(normal(random, 2, n, 5));
      in.push_back(normal(random, 1, n, 3));
      in.push_back(normal(random, 1, 3, gates));
      return in;
    });
}

// Inputs: query, key, value, the first layer's value, and the shares of the two, [1, 1, 2].
TEST(Compositions, value_residual) {
  const auto mixture = [](const Tensors& in) {
    Tensor mixed = zeros(in[2].dim(0), in[2].dim(1), in[2].dim(2));
    for_each(mixed, [&](auto... i) {
      at(mixed, i...) = at(in[4], 0, 0, 0) * at(in[2], i...) + at(in[4], 0, 0, 1) * at(in[3], i...);
    });
    return mixed;
  };
  Composition c;
  c.plain = [&](const Tensors& in) { return plain_attention(in[0], in[1], mixture(in)); };
  c.composed = [&](const Tensors& in, const Tensor& d_output) {
    Called one = call(in[0], in[1], mixture(in), causal_options(),
                      [&](const Tensor&) { return Tensor::copy_of(d_output); });
    const Tensor& d_mixed = one.gradients.d_value;
    Composed all{std::move(one.forward.output), {}};
    all.gradients.push_back(std::move(one.gradients.d_query));
    all.gradients.push_back(std::move(one.gradients.d_key));
    for (const int64_t share : {0, 1})
      all.gradients.push_back(
          check::mapped(d_mixed, [&](double d, auto) { return d * at(in[4], 0, 0, share); }));
    Tensor d_shares = zeros(1, 1, 2);
    at(d_shares, 0, 0, 0) = dot(d_mixed, in[2]);
    at(d_shares, 0, 0, 1) = dot(d_mixed, in[3]);
    all.gradients.push_back(std::move(d_shares));
    return all;
  };
  expect_law(c, [](int64_t n, Random& random) {
    Tensors in;
    in.push_back(normal(random, 4, n, 6));
    in.push_back(normal(random, 2, n, 6));
    in.push_back(normal(random, 2, n, 5));
    in.push_back(normal(random, 2, n, 5));
    in.push_back(normal(random, 1, 1, 2));
    return in;
  });
}

}  // namespace
}  // namespace laws
