#include "check/tolerance/gradient_tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/tolerance/feature_tolerance.h"
#include "check/tolerance/normalizer_errors.h"
#include "check/tolerance/open_gradients.h"
#include "check/tolerance/relative_floors.h"
#include "check/tolerance/score_errors.h"

namespace check {
namespace {

using rapt::DType;

// Squares in long double, because squares of small f64 numbers underflow.
long double square(long double x) { return x * x; }

// The floors of all gradients, from the rows of the truth.
template <class Real, class Wide>
class GradientFloors {
 public:
  GradientFloors(const Problem& p, const Incoming& in)
      : p_(p),
        sizes_(sizes_of(p)),
        score_errors_(p),
        relative_(p.relative, sizes_),
        open_(p, sizes_) {
    if (p.rounds_weights) weight_roundoff_ = unit_roundoff(p.query.dtype);
    if (rounds_products(p)) product_roundoff_ = weight_roundoff_;
    left_out_ = p.left_out;
    // If d_output has another dtype, FMA computes the products of the gradients, and nothing is
    // left out.
    if (p.output_dtype.value_or(p.query.dtype) == p.query.dtype)
      left_out_of_gradients_ = p.left_out;
    output_roundoff_ = unit_roundoff(p.output_dtype.value_or(p.query.dtype));
    gradient_dtype_ = in.gradient_dtype.value_or(p.query.dtype);
    scale_ = std::abs(p.scale ? *p.scale : 1 / std::sqrt(static_cast<double>(sizes_.head_dim)));
    const auto sum_over = [](int64_t n) {
      return kEpsilon * (0.5 + std::sqrt(static_cast<double>(n)) / 4);
    };
    sum_ = sum_over(sizes_.value_dim);
    dot_ = sum_over(sizes_.head_dim);
    const auto zeros = [](const rapt::TensorView& t) {
      return std::vector<long double>(static_cast<size_t>(t.count()), 0);
    };
    query = zeros(p.query);
    key = zeros(p.key);
    value = zeros(p.value);
    bias = zeros(p.bias);
    numbers.assign(static_cast<size_t>(count_parameters_of(p.scores)), 0);
  }

  void add(const GradientRow<Wide>& g) {
    const Row<Wide>& row = *g.forward;
    if (row.head != head_) enter(row);
    errors_of_row(g);
    const int64_t i = row.index;
    const Wide* q = row.inputs->query_row(i);
    const RelativeRows<Wide>& tables = row.inputs->relative;
    std::vector<double> linear(static_cast<size_t>(sizes_.head_dim), 0);
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      const Pair<Wide>& pair = row.pairs[x];
      const Wide* k = row.inputs->key_row(pair.key);
      const double dz = number(g.d_products[x]), dz_error = dz_[x] + kEpsilon * dz;
      const double dz_rounding = product_roundoff() * dz;
      for (int64_t d = 0; d < sizes_.head_dim; ++d) {
        const double of_key =
            number(k[d]) + number(tables.number(RelativeSpec::keys, pair.table_row, d));
        linear[static_cast<size_t>(d)] +=
            dz_error * of_key + dz * kEpsilon * score_errors_.key_error(pair.key, d);
        query[query_(i, d)] += square(dz_rounding * of_key);
        const double of_query = number(tables.query_of_keys(q, d)),
                     of_row = number(tables.number(RelativeSpec::queries, pair.table_row, d));
        key[key_(pair.key, d)] += square((dz_error + dz_rounding) * (of_query + of_row) +
                                         dz * kEpsilon * score_errors_.query_error(i, d));
      }
      const double kept = number(pair.kept * g.weights[x]);
      const double kept_error = number(pair.kept) * weight_errors_[x] +
                                (2 * kEpsilon + product_roundoff()) * kept + kTiny;
      for (int64_t c = 0; c < sizes_.value_dim; ++c)
        value[value_(pair.key, c)] +=
            square(kept_error * number(g.d_output[static_cast<size_t>(c)]));
      if (p_.relative.any()) relative_.add_pair(g, pair, dz_error + dz_rounding, kept_error);
    }
    relative_.end_row();
    for (int64_t d = 0; d < sizes_.head_dim; ++d)
      query[query_(i, d)] += square(linear[static_cast<size_t>(d)]);
    add_bias(g);
    add_scale(g);
    add_numbers(g);
    add_normalizer(g);
    open_.add(g, {off_, weights_, weight_errors_, chains_});
  }

  // Called after all rows. Adds the parts left out of whole sums and, for transformed rows, turns
  // the errors of their gradients into those of the given rows.
  void finish(const Gradients<Wide>& truth) {
    const bool changed = p_.rows.any();
    add_left_out(changed ? truth.transformed_query : truth.query, changed ? 1 : scale_, query);
    add_left_out(changed ? truth.transformed_key : truth.key, changed ? 1 : scale_, key);
    add_left_out(truth.value, 1, value);
    if (!changed) return;
    change_back_errors(RowErrors<Wide>(query_transform<Wide>(p_, sizes_)), p_.query,
                       truth.transformed_query, query);
    change_back_errors(RowErrors<Wide>(key_transform<Wide>(p_, sizes_)), p_.key,
                       truth.transformed_key, key);
  }

  std::vector<long double> query, key, value, bias, numbers;  // sums of squared errors of the rows
  long double scale = 0, normalizer = 0;

  // The error of an element of query, key or value: the root, plus the rounding to its dtype.
  double stored(long double squares, double factor, Wide truth) const {
    return factor * static_cast<double>(std::sqrt(squares)) +
           unit_roundoff(gradient_dtype_) * number(truth) + smallest_denormal(gradient_dtype_) / 2 +
           kTiny;
  }
  // The error of an element that is summed in f32 or f64 and not rounded further.
  static double summed(long double squares, double factor) {
    return factor * static_cast<double>(std::sqrt(squares)) + kTiny;
  }
  const std::vector<long double>& relative(size_t part) const { return relative_.squares[part]; }
  double scale_of_products() const { return scale_; }
  const OpenGradients<Real, Wide>& open() const { return open_; }

 private:
  // The gradient of the bias is dZ if it is added before the score functions, else dS. A bias with
  // one column sums over all keys.
  void add_bias(const GradientRow<Wide>& g) {
    if (bias.empty()) return;
    const Row<Wide>& row = *g.forward;
    double all = 0;
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      const double error = p_.bias_first ? dz_[x] + kEpsilon * number(g.d_products[x])
                                         : ds_[x] + kEpsilon * number(g.d_scores[x]);
      all += error;
      if (!bias_per_row_) bias[bias_(row.index, row.pairs[x].key)] += square(error);
    }
    if (bias_per_row_) bias[bias_(row.index, 0)] += square(all);
  }

  void add_scale(const GradientRow<Wide>& g) {
    const Row<Wide>& row = *g.forward;
    double linear = 0, by_query = 0;
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      const double dz = number(g.d_products[x]), dot = number(row.pairs[x].dot);
      linear += (dz_[x] + kEpsilon * dz) * dot +
                dz * (dot_ * number(products_[x].terms) + kEpsilon * number(products_[x].added));
      by_query += static_cast<double>(g.d_products[x] * row.pairs[x].dot);
      scale += square(product_roundoff_ * dz * dot +
                      left_out_of_gradients_.weights * dz * number(products_[x].terms));
    }
    scale += square(linear + left_out_of_gradients_.weights * std::abs(by_query));
  }

  void add_numbers(const GradientRow<Wide>& g) {
    std::vector<double> linear(numbers.size(), 0);
    for (size_t x = 0; x < chains_.size(); ++x) {
      const double ds = number(g.d_scores[x]), ds_error = ds_[x] + kEpsilon * ds;
      for (size_t n = 0; n < chains_[x].by_number.size(); ++n) {
        if (chains_[x].number_at[n] < 0) continue;
        const Dual<Wide>& by = chains_[x].by_number[n];
        const double error = kEpsilon * by.value_error;
        linear[static_cast<size_t>(chains_[x].number_at[n])] +=
            ds_error * (number(by.value) + error) + ds * error;
      }
    }
    for (size_t n = 0; n < numbers.size(); ++n) numbers[n] += square(linear[n]);
  }

  void add_normalizer(const GradientRow<Wide>& g) {
    const Row<Wide>& row = *g.forward;
    normalizer += square(std::visit(
        [&](const auto& n) {
          return errors_of(n).d_number_error(
              {weights_, d_weights_, static_cast<double>(g.d_statistic), 0},
              {weight_errors_, d_weight_errors_, 0}, static_cast<double>(row.weighed.statistic),
              static_cast<double>(g.delta), delta_, off_);
        },
        row.normalizer));
  }

  static constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();
  static constexpr double kTiny = std::numeric_limits<Real>::min();

  static double number(Wide x) { return static_cast<double>(std::abs(x)); }

  void enter(const Row<Wide>& row) {
    const int64_t head = head_ = row.head;
    score_errors_.enter(*row.inputs);
    query_ = places_of(p_.query, head, sizes_);
    key_ = places_of(p_.key, head, sizes_);
    value_ = places_of(p_.value, head, sizes_);
    relative_.enter(head);
    if (!p_.bias.defined()) return;
    bias_ = places_of(p_.bias, head, sizes_);
    bias_per_row_ = p_.bias.shape[p_.bias.rank - 1] == 1;
  }

  static void change_back_errors(const RowErrors<Wide>& transform, const rapt::TensorView& t,
                                 const std::vector<Wide>& changed,
                                 std::vector<long double>& squares) {
    std::vector<double> errors;
    for (const long double x : squares)
      errors.push_back(static_cast<double>(std::sqrt(x)) / kEpsilon);
    for_each_matrix_row<Wide>(t, [&](int64_t r, const Wide* given, size_t at) {
      transform.of_transform_back(r, given, &changed[at], &errors[at]);
    });
    for (size_t x = 0; x < errors.size(); ++x) squares[x] = square(errors[x] * kEpsilon);
  }

  // Adds the parts left out of sums. `truth` holds these sums times `factor`.
  void add_left_out(const std::vector<Wide>& truth, double factor,
                    std::vector<long double>& squares) const {
    const double left_out = left_out_of_gradients_.weights;
    if (left_out == 0 || factor == 0) return;
    for (size_t x = 0; x < squares.size(); ++x)
      squares[x] += square(left_out * number(truth[x]) / factor);
  }
  // The relative error of a product of a weight, or dZ, with an element of a row. These errors add
  // up in quadrature.
  double product_roundoff() const { return product_roundoff_ + left_out_of_gradients_.weights; }

  // Computes the errors of dS and dZ for every pair of the row.
  void errors_of_row(const GradientRow<Wide>& g) {
    const Row<Wide>& row = *g.forward;
    const auto statistic = static_cast<double>(row.weighed.statistic);
    std::vector<Wide> scores;
    chains_.clear(), products_.clear();
    for (const Pair<Wide>& pair : row.pairs) {
      scores.push_back(pair.score);
      products_.push_back(score_errors_.of_product(row.index, pair));
      chains_.push_back(score_errors_.chain(pair, products_.back()));
    }
    off_ = off_of_row(row.normalizer, std::span<const Wide>(scores), row.weighed,
                      score_errors_.of_row(row) * kEpsilon, kEpsilon);
    weights_.clear();
    for (const Wide weight : g.weights) weights_.push_back(weight_number(std::abs(weight)));
    d_weights_.assign(g.d_weights.begin(), g.d_weights.end());
    std::visit(
        [&](const auto& n) {
          weight_errors_.clear();
          for (size_t x = 0; x < scores.size(); ++x)
            weight_errors_.push_back(errors_of(n).weight_error_again(static_cast<double>(scores[x]),
                                                                     weights_[x], statistic, off_));
          const double of_output = delta_error(g);
          delta_ = errors_of(n).delta_error(
              {weights_, d_weights_, static_cast<double>(g.d_statistic), 0},
              static_cast<double>(g.delta), {weight_errors_, d_weight_errors_, of_output}, off_);
          ds_.clear();
          for (size_t x = 0; x < scores.size(); ++x)
            ds_.push_back(errors_of(n).d_score_error(
                              static_cast<double>(scores[x]), weights_[x], d_weights_[x],
                              static_cast<double>(g.delta), statistic,
                              PairErrors{weight_errors_[x], d_weight_errors_[x], delta_}, off_) +
                          kTiny * (1 + number(g.d_weights[x] - g.delta)));
        },
        row.normalizer);
    dz_.clear();
    for (size_t x = 0; x < scores.size(); ++x)
      dz_.push_back(ds_[x] * number(chains_[x].slope.value) +
                    number(g.d_scores[x]) * kEpsilon * chains_[x].slope.value_error);
  }

  // The error of the delta of softmax, and those of dP.
  double delta_error(const GradientRow<Wide>& g) {
    const Row<Wide>& row = *g.forward;
    Dot<Wide> output;
    for (size_t c = 0; c < row.output.size(); ++c) output.add(g.d_output[c], row.output[c]);
    double weighted = 0, squares = 0, term_squares = 0;
    Wide given_terms = std::abs(g.d_statistic);
    d_weight_errors_.clear();
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      const double terms = value_terms(g, row.pairs[x]), d_weight = number(g.d_weights[x]);
      d_weight_errors_.push_back((sum_ + left_out_of_gradients_.rows) * terms);
      weighted += weight_errors_[x] * d_weight;
      squares += weights_[x] * d_weight * (weights_[x] * d_weight);
      term_squares += weights_[x] * terms * (weights_[x] * terms);
      given_terms += g.weights[x] * std::abs(g.given[x]);
    }
    return weighted + sum_ * number(output.terms()) +
           output_roundoff_ * number(std::sqrt(output.squares)) +
           weight_roundoff_ * (number(output.terms()) + std::sqrt(squares)) +
           left_out_.weights * (number(output.terms()) + std::sqrt(term_squares)) +
           kEpsilon * number(given_terms);
  }

  // The size of the terms of k d_output . value.
  double value_terms(const GradientRow<Wide>& g, const Pair<Wide>& pair) const {
    Dot<Wide> of_value, of_row;
    for (int64_t c = 0; c < sizes_.value_dim; ++c) {
      const Wide d = g.d_output[static_cast<size_t>(c)];
      of_value.add(d, g.forward->inputs->value_row(pair.key)[c]);
      if (g.forward->inputs->relative.has(RelativeSpec::values))
        of_row.add(d, g.forward->inputs->relative.number(RelativeSpec::values, pair.table_row, c));
    }
    return number(pair.kept * (of_value.terms() + of_row.terms()));
  }

  const Problem& p_;
  const Sizes sizes_;
  double weight_roundoff_ = 0, product_roundoff_ = 0, output_roundoff_ = 0, scale_ = 0;
  LeftOut left_out_, left_out_of_gradients_;
  // Errors of sums over value_dim and over head_dim, relative to the T of the sum.
  double sum_ = 0, dot_ = 0;
  DType gradient_dtype_ = DType::f32;
  int64_t head_ = -1;
  Places query_, key_, value_, bias_;
  ScoreErrors<Wide> score_errors_;
  RelativeFloors<Wide> relative_;
  OpenGradients<Real, Wide> open_;
  bool bias_per_row_ = false;
  // Of the current row:
  std::vector<ProductErrors<Wide>> products_;   // of query . key
  std::vector<ScoreChain<Dual<Wide>>> chains_;  // scores, with the errors of their slopes
  double delta_ = 0;                            // the error of delta
  Off off_ = {};
  // Of the unmasked keys:
  std::vector<double> weights_, d_weights_, weight_errors_, d_weight_errors_, ds_, dz_;
};

template <class Real, class Wide>
GradientExpectations expect(const Problem& p, const Incoming& in, const Sample& sample) {
  GradientFloors<Real, Wide> floors(p, in);
  const Gradients<Wide> truth =
      gradients<Wide>(p, in, sample, [&](const GradientRow<Wide>& row) { floors.add(row); });
  floors.finish(truth);
  const Gradients<Real> plain = gradients<Real>(p, in, sample);
  GradientExpectations e;
  const auto fill = [](Expectation& into, const std::vector<Wide>& wide,
                       const std::vector<Real>& narrow) {
    into.truth.assign(wide.begin(), wide.end());
    into.plain.assign(narrow.begin(), narrow.end());
  };
  using Squares = std::vector<long double>;
  const auto stored = [&](Expectation& into, const std::vector<Wide>& wide,
                          const std::vector<Real>& narrow, const Squares& squares, double factor) {
    fill(into, wide, narrow);
    for (size_t i = 0; i < wide.size(); ++i)
      into.floor.push_back(floors.stored(squares[i], factor, wide[i]));
  };
  const auto summed = [&](Expectation& into, const std::vector<Wide>& wide,
                          const std::vector<Real>& narrow, const Squares& squares, double factor) {
    fill(into, wide, narrow);
    for (const long double x : squares) into.floor.push_back(floors.summed(x, factor));
  };
  const double scale = floors.scale_of_products();
  stored(e.query, truth.query, plain.query, floors.query, scale);
  stored(e.key, truth.key, plain.key, floors.key, scale);
  stored(e.value, truth.value, plain.value, floors.value, 1);
  summed(e.bias, truth.bias, plain.bias, floors.bias, 1);
  summed(e.scale, {truth.scale}, {plain.scale}, {floors.scale}, 1);
  summed(e.numbers, truth.numbers, plain.numbers, floors.numbers, 1);
  if (has_gradient(p.normalizer))
    summed(e.normalizer, {truth.normalizer}, {plain.normalizer}, {floors.normalizer}, 1);
  for (size_t part = 0; part < RelativeSpec::kParts; ++part)
    summed(e.relative[part], truth.relative[part], plain.relative[part], floors.relative(part),
           part == RelativeSpec::values ? 1 : scale);
  floors.open().mark(e);
  return e;
}

}  // namespace

GradientExpectations gradient_expectations(const Problem& problem, const Incoming& incoming,
                                           const Sample& sample) {
  if (problem.features) return feature_gradient_expectations(problem, incoming);
  return problem.query.dtype == DType::f64 ? expect<double, long double>(problem, incoming, sample)
                                           : expect<float, double>(problem, incoming, sample);
}

}  // namespace check
