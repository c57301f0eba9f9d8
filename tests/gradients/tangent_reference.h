#pragma once
// The reference of tangents: attention and its gradients as the formulas say them, one loop per
// sum, in dual numbers that also carry a bound of their rounding error
// (check/tolerance/dual_numbers.h). No formula of a tangent is written down. Their errors are the
// floor of
//
//   error(rapt) <= 2 error(plain loop in the same dtype) + floor
//
// in which the plain loop is these loops in the dtype itself.
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "check/compare/gradient_case.h"
#include "check/reference/philox.h"
#include "check/tensors/reference_matrix.h"
#include "check/tolerance/score_errors.h"
#include "check/tolerance/tolerance.h"
#include "rapt/tangents.h"

namespace laws {

using namespace check;

// The library rejects tangents of sparse normalisers, relative positions and row transforms.
inline bool has_tangents(const Descriptor& d) {
  return !is_sparse(d.normalizer) && !d.relative.any() && !d.rows.any();
}

// All gradients but those of the normaliser's parameters, which have no tangents.
inline rapt::BackwardRequest request_of(const GradientCase& g) {
  rapt::BackwardRequest request = g.request();
  request.normalizer_parameters = false;
  return request;
}

// The tangents of the inputs of a case.
struct Motion {
  Tensor query, key, value, bias;  // absent: not
  double scale = 0;
  std::vector<double> numbers;  // of all scores
  Tensor d_output, d_lse;

  // All of them, drawn.
  Motion(const GradientCase& g, Random& random) {
    const auto like = [&](const Tensor& t) {
      const Shape s = t.dims();
      return random_normal(random, t.dtype(), Dims(s.begin(), s.end()));
    };
    query = like(g.c.query), key = like(g.c.key), value = like(g.c.value);
    if (g.c.bias.defined()) bias = like(g.c.bias);
    scale = random.normal();
    for (int64_t n = 0; n < count_parameters_of(g.c.descriptor.scores); ++n)
      numbers.push_back(random.normal());
    d_output = like(g.d_output);
    if (g.d_lse.defined()) d_lse = like(g.d_lse);
  }

  rapt::InputTangents inputs() const {
    rapt::InputTangents t;
    const auto put = [](TensorView& view, const Tensor& tensor) {
      if (tensor.defined()) view = tensor;
    };
    put(t.query, query), put(t.key, key), put(t.value, value), put(t.bias, bias);
    t.scale = scale;
    t.score_parameters = numbers;
    return t;
  }
  rapt::OutputTangents outputs() const {
    rapt::OutputTangents t;
    if (d_output.defined()) t.d_output = d_output;
    if (d_lse.defined()) t.d_statistic = d_lse;
    return t;
  }
};

// Everything that moves: the results, and the gradients in the shapes of the inputs.
template <class Real>
struct Moved {
  std::vector<Dual<Real>> output, lse, query, key, value, bias, numbers;
  Dual<Real> scale;
};

// A matrix of one head and how it moves.
template <class Real>
class MovingMatrix {
 public:
  MovingMatrix(const Tensor& values, const Tensor& motion, std::span<const int64_t> leading,
               std::span<const int64_t> lengths)
      : values_view_(values.defined() ? values.view() : TensorView{}),
        motion_view_(motion.defined() ? motion.view() : TensorView{}) {
    if (values.defined()) values_ = matrix_of(values_view_, leading, lengths);
    if (motion.defined()) motion_ = matrix_of(motion_view_, leading, lengths);
  }
  MovingMatrix(const MovingMatrix&) = delete;
  Dual<Real> operator()(int64_t row, int64_t column) const {
    return {static_cast<Real>(values_(row, column)),
            motion_.tensor ? static_cast<Real>(motion_(row, column)) : Real(0)};
  }
  const Matrix& values() const { return values_; }

 private:
  TensorView values_view_, motion_view_;
  Matrix values_, motion_;
};

// The reference loops. `exact`: no intermediate is rounded to 16 bits, but the error bounds still
// count these roundings.
template <class Real>
Moved<Real> moved(const GradientCase& g, const Motion& motion, bool exact) {
  using N = Dual<Real>;
  const check::Case& c = g.c;
  const Problem p = c.for_reference();
  const Sizes sizes = sizes_of(p);
  const DType stored = p.output_dtype.value_or(p.query.dtype);
  const double epsilon = p.query.dtype == DType::f64
                             ? std::numeric_limits<double>::epsilon()
                             : double{std::numeric_limits<float>::epsilon()};
  const auto at = [](int64_t i) { return static_cast<size_t>(i); };
  Moved<Real> m;
  m.output.resize(at(sizes.heads * sizes.q_len * sizes.value_dim));
  m.lse.resize(at(sizes.heads * sizes.q_len));
  m.query.resize(at(c.query.count())), m.key.resize(at(c.key.count()));
  m.value.resize(at(c.value.count())), m.bias.resize(c.bias.defined() ? at(c.bias.count()) : 0);
  const N scale(
      static_cast<Real>(p.scale.value_or(1 / std::sqrt(static_cast<double>(sizes.head_dim)))),
      static_cast<Real>(motion.scale));
  m.numbers.resize(motion.numbers.size());
  // The scores of a pair; numbers of all scores follow each other.
  const auto chain = [&](const N& product, std::span<const int64_t> leading, int64_t i, int64_t j) {
    return chain_of(
        p.scores, product, place_of(p, sizes, leading, i, j),
        [&](const ScoreSpec& spec, int64_t nth) {
          N number = number_of<Real>(spec, nth);
          const auto before =
              std::span(p.scores).first(static_cast<size_t>(&spec - p.scores.data()));
          number.tangent = static_cast<Real>(
              motion.numbers[static_cast<size_t>(count_parameters_of(before) + nth)]);
          return number;
        },
        [](const N& s, const auto& f) { return f(s); });
  };
  for (int64_t head = 0; head < sizes.heads; ++head) {
    const std::vector<int64_t> leading = leading_index(head, sizes.leading);
    const MovingMatrix<Real> query(c.query, motion.query, leading, sizes.leading),
        key(c.key, motion.key, leading, sizes.leading),
        value(c.value, motion.value, leading, sizes.leading),
        bias(c.bias, motion.bias, leading, sizes.leading),
        d_output(g.d_output, motion.d_output, leading, sizes.leading);
    const Places to_query = places_of(p.query, head, sizes), to_key = places_of(p.key, head, sizes),
                 to_value = places_of(p.value, head, sizes),
                 to_bias = p.bias.defined() ? places_of(p.bias, head, sizes) : Places{};
    const auto sum_over = [](int64_t count, const auto& term) {
      N sum;
      for (int64_t x = 0; x < count; ++x) sum = sum + term(x);
      return sum;
    };
    for (int64_t i = 0; i < sizes.q_len; ++i) {
      N& lse = m.lse[at(head * sizes.q_len + i)];
      const Normalizer normalizer =
          of_length(p.normalizer, p.k_len_of ? p.k_len_of(leading, i) : sizes.k_len);
      std::vector<int64_t> keys;
      for (int64_t j = 0; j < sizes.k_len; ++j)
        if ((!p.allowed || p.allowed(leading, i, j)) &&
            !(p.bias.defined() && std::isinf(bias.values()(i, j))))
          keys.push_back(j);
      const auto count = static_cast<int64_t>(keys.size());
      std::vector<N> dots, arguments, scores, weights, kept;  // arguments: of the first score
      for (const int64_t j : keys) {
        dots.push_back(
            sum_over(sizes.head_dim, [&](int64_t d) { return query(i, d) * key(j, d); }));
        const N product = scale * dots.back();
        arguments.push_back(p.bias_first ? product + bias(i, j) : product);
        const N s = chain(arguments.back(), leading, i, j).score;
        scores.push_back(p.bias.defined() && !p.bias_first ? s + bias(i, j) : s);
      }
      lse = std::visit([&](const auto& n) { return n.weigh(std::span<const N>(scores)).statistic; },
                       normalizer);
      if (keys.empty()) {
        lse = N(lse.value);  // does not move
        continue;
      }
      for (int64_t x = 0; x < count; ++x) {
        weights.push_back(
            std::visit([&](const auto& n) { return n.weight(scores[at(x)], lse, 0); }, normalizer));
        kept.push_back(weights.back() *
                       N(dropout_factor<Real>(p.dropout, p.dropout_seed, head, i, keys[at(x)])));
      }
      // The output is stored, and then read again to take away its part that lse moves.
      std::vector<N> output;
      for (int64_t v = 0; v < sizes.value_dim; ++v) {
        N o = sum_over(count, [&](int64_t x) { return kept[at(x)] * value(keys[at(x)], v); });
        const double lost = unit_roundoff(stored) * size(o.value) + smallest_denormal(stored);
        o.value_error += lost / epsilon;
        // What is taken away was added before: P o S' V, with both errors.
        const double taken = size(lse.tangent * o.value);
        o.tangent_error +=
            lost / epsilon * size(lse.tangent) + taken + lse.tangent_error * size(o.value);
        if (!exact) o.value = rounded(stored, o.value);
        m.output[at((head * sizes.q_len + i) * sizes.value_dim + v)] = o;
        output.push_back(o);
      }
      const auto given = [&](const Tensor& t) {
        return t.defined() ? static_cast<Real>(values_of(t)[at(head * sizes.q_len + i)]) : Real(0);
      };
      const N d_statistic(given(g.d_lse), given(motion.d_lse));
      const N of_output =
          sum_over(sizes.value_dim, [&](int64_t v) { return d_output(i, v) * output[at(v)]; }) -
          d_statistic;
      std::vector<N> d_weights;
      for (const int64_t j : keys)
        d_weights.push_back(
            N(dropout_factor<Real>(p.dropout, p.dropout_seed, head, i, j)) *
            sum_over(sizes.value_dim, [&](int64_t v) { return d_output(i, v) * value(j, v); }));
      const N delta = std::visit(
          [&](const auto& n) {
            return n.delta(RowToPassBack<N>{weights, d_weights, d_statistic, of_output});
          },
          normalizer);
      for (int64_t x = 0; x < count; ++x) {
        const int64_t j = keys[at(x)];
        const N d_score = std::visit(
            [&](const auto& n) {
              return n.d_score(scores[at(x)], weights[at(x)], d_weights[at(x)], delta, lse);
            },
            normalizer);
        const auto add = [](N& to, const N& term) { to = to + term; };
        for (int64_t v = 0; v < sizes.value_dim; ++v)
          add(m.value[to_value(j, v)], kept[at(x)] * d_output(i, v));
        const auto passed = chain(arguments[at(x)], leading, i, j);
        const N d_product = d_score * passed.slope;
        if (p.bias.defined()) add(m.bias[to_bias(i, j)], p.bias_first ? d_product : d_score);
        for (size_t s = 0; s < passed.by_number.size(); ++s)
          if (passed.number_at[s] >= 0)
            add(m.numbers[at(passed.number_at[s])], d_score * passed.by_number[s]);
        add(m.scale, d_product * dots[at(x)]);
        for (int64_t d = 0; d < sizes.head_dim; ++d) {
          add(m.query[to_query(i, d)], scale * d_product * key(j, d));
          add(m.key[to_key(j, d)], scale * d_product * query(i, d));
        }
      }
    }
  }
  // From units of e.
  for (std::vector<N>* numbers :
       {&m.output, &m.lse, &m.query, &m.key, &m.value, &m.bias, &m.numbers})
    for (N& x : *numbers) x.value_error *= epsilon, x.tangent_error *= epsilon;
  m.scale.value_error *= epsilon, m.scale.tangent_error *= epsilon;
  return m;
}

// The truth and the plain loop of a case with tangents.
struct Motions {
  Moved<long double> truth;
  Moved<long double> plain;  // computed in the dtype, or in float

  Motions(const GradientCase& g, const Motion& motion)
      : truth(moved<long double>(g, motion, true)),
        plain(g.c.descriptor.dtype == DType::f64 ? widened(moved<double>(g, motion, false))
                                                 : widened(moved<float>(g, motion, false))) {}

 private:
  template <class Real>
  static std::vector<Dual<long double>> widened(const std::vector<Dual<Real>>& from) {
    std::vector<Dual<long double>> to;
    for (const Dual<Real>& x : from) to.emplace_back(x.value, x.tangent);
    return to;
  }
  template <class Real>
  static Moved<long double> widened(const Moved<Real>& m) {
    return {
        widened(m.output), widened(m.lse),  widened(m.query),   widened(m.key),
        widened(m.value),  widened(m.bias), widened(m.numbers), {m.scale.value, m.scale.tangent}};
  }
};

// The tangents of one tensor, stored in `dtype`.
inline Expectation expected_tangents(const std::vector<Dual<long double>>& truth,
                                     const std::vector<Dual<long double>>& plain, DType dtype) {
  Expectation e;
  for (size_t i = 0; i < truth.size(); ++i) {
    const bool no_keys = std::isinf(truth[i].value);  // the lse of a row without keys stays
    e.truth.push_back(no_keys ? 0 : truth[i].tangent);
    e.plain.push_back(no_keys ? 0 : rounded(dtype, plain[i].tangent));
    e.floor.push_back(
        no_keys ? 0
                : truth[i].tangent_error + unit_roundoff(dtype) * size(truth[i].tangent) +
                      smallest_denormal(dtype) / 2 + double{std::numeric_limits<float>::min()});
  }
  return e;
}

}  // namespace laws
