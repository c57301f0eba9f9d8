#include "check/tolerance/gradient_tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "check/tolerance/relative_floors.h"

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
      : p_(p), sizes_(sizes_of(p)), relative_(p.relative, sizes_) {
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

  void add(const GradientRow<Wide>& row) {
    if (row.forward->head != head_) enter(row.forward->head);
    errors_of(row);
    const int64_t i = row.forward->index;
    const Wide *q = row.inputs->query_row(i), *d_output = row.inputs->d_output_row(i);
    const RelativeRows<Wide>& tables = row.inputs->relative;
    std::vector<double> linear(static_cast<size_t>(sizes_.head_dim), 0);
    std::vector<double> numbers_linear(numbers.size(), 0);
    double scale_linear = 0, bias_linear = 0, by_query = 0;
    for (size_t x = 0; x < row.keys.size(); ++x) {
      const int64_t j = row.keys[x];
      const Wide* k = row.inputs->key_row(j);
      const double dz = number(row.d_products[x]), ds = number(row.d_scores[x]);
      const double dz_error = dz_[x] + kEpsilon * dz, ds_error = ds_[x] + kEpsilon * ds;
      const double dz_rounding = product_roundoff() * dz;
      for (int64_t d = 0; d < sizes_.head_dim; ++d) {
        const double of_key =
            number(k[d]) + number(tables.number(RelativeSpec::keys, row.row_of(x), d));
        linear[static_cast<size_t>(d)] +=
            dz_error * of_key + dz * kEpsilon * row.inputs->key_error(j, d);
        query[query_(i, d)] += square(dz_rounding * of_key);
        const double of_query = number(tables.query_of_keys(q, d)),
                     of_row = number(tables.number(RelativeSpec::queries, row.row_of(x), d));
        key[key_(j, d)] += square((dz_error + dz_rounding) * (of_query + of_row) +
                                  dz * kEpsilon * row.inputs->query_error(i, d));
      }
      const double kept = number(row.kept[x]);
      const double dropped = number(row.forward->kept[static_cast<size_t>(j)]);
      const double kept_error =
          dropped * weight_errors_[x] + (2 * kEpsilon + product_roundoff()) * kept + kTiny;
      for (int64_t c = 0; c < sizes_.value_dim; ++c)
        value[value_(j, c)] += square(kept_error * number(d_output[c]));
      if (p_.relative.any()) relative_.add_pair(row, x, dz_error + dz_rounding, kept_error);
      const double bias_error = p_.bias_first ? dz_error : ds_error;
      bias_linear += bias_error;
      if (!bias.empty() && !bias_per_row_) bias[bias_(i, j)] += square(bias_error);
      const PairProduct<Wide>& product = row.products[x];
      scale_linear += dz_error * number(row.dots[x]) +
                      dz * (dot_ * number(product.terms) + kEpsilon * number(product.added));
      by_query += static_cast<double>(row.d_products[x] * row.dots[x]);
      scale += square(product_roundoff_ * dz * number(row.dots[x]) +
                      left_out_of_gradients_.weights * dz * number(product.terms));
      for (size_t s = row.first_number_of(x); s < row.first_number_of(x + 1); ++s) {
        if (row.number_at[s] < 0) continue;
        const double error = kEpsilon * row.number_slopes[s].value_error;
        numbers_linear[static_cast<size_t>(row.number_at[s])] +=
            ds_error * (number(row.number_slopes[s].value) + error) + ds * error;
      }
    }
    relative_.end_row();
    for (int64_t d = 0; d < sizes_.head_dim; ++d)
      query[query_(i, d)] += square(linear[static_cast<size_t>(d)]);
    if (!bias.empty() && bias_per_row_) bias[bias_(i, 0)] += square(bias_linear);
    scale += square(scale_linear + left_out_of_gradients_.weights * std::abs(by_query));
    for (size_t n = 0; n < numbers.size(); ++n) numbers[n] += square(numbers_linear[n]);
    add_normalizer(row);
  }

  // Called after all rows. Adds the parts left out of whole sums and, for transformed rows, turns
  // the errors of their gradients into those of the given rows.
  void finish(const Gradients<Wide>& truth) {
    const bool changed = p_.rows.any();
    add_left_out(changed ? truth.transformed_query : truth.query, changed ? 1 : scale_, query);
    add_left_out(changed ? truth.transformed_key : truth.key, changed ? 1 : scale_, key);
    add_left_out(truth.value, 1, value);
    if (!changed) return;
    change_back_errors(query_change<Wide>(p_, sizes_), p_.query, truth.transformed_query, query);
    change_back_errors(key_change<Wide>(p_, sizes_), p_.key, truth.transformed_key, key);
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

 private:
  void add_normalizer(const GradientRow<Wide>& row) {
    const Row<Wide>& forward = *row.forward;
    normalizer += square(std::visit(
        [&](const auto& n) {
          return n.d_number_error({weights_, d_weights_, static_cast<double>(row.d_statistic), 0},
                                  {weight_errors_, d_weight_errors_, 0},
                                  static_cast<double>(forward.statistic),
                                  static_cast<double>(row.delta), delta_, off_);
        },
        forward.normalizer));
  }

  static constexpr double kEpsilon = std::numeric_limits<Real>::epsilon();
  static constexpr double kTiny = std::numeric_limits<Real>::min();

  static double number(Wide x) { return static_cast<double>(std::abs(x)); }

  void enter(int64_t head) {
    head_ = head;
    query_ = places_of(p_.query, head, sizes_);
    key_ = places_of(p_.key, head, sizes_);
    value_ = places_of(p_.value, head, sizes_);
    relative_.enter(head);
    if (!p_.bias.defined()) return;
    bias_ = places_of(p_.bias, head, sizes_);
    bias_per_row_ = p_.bias.shape[p_.bias.rank - 1] == 1;
  }

  static void change_back_errors(const RowTransform<Wide>& change, const rapt::TensorView& t,
                                 std::vector<Wide> changed, std::vector<long double>& squares) {
    std::vector<double> errors;
    for (const long double x : squares)
      errors.push_back(static_cast<double>(std::sqrt(x)) / kEpsilon);
    transform_back(change, t, changed, errors);
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
  void errors_of(const GradientRow<Wide>& row) {
    const Row<Wide>& forward = *row.forward;
    const auto statistic = static_cast<double>(forward.statistic);
    scores_.assign(row.scores.begin(), row.scores.end());
    off_ = off_of_row(forward.normalizer, scores_, statistic,
                      {forward.score_error * kEpsilon, kEpsilon, 0,
                       static_cast<double>(forward.cut), static_cast<double>(forward.condition)});
    const auto score_of = [&](size_t x) { return static_cast<double>(row.scores[x]); };
    weight_errors_.clear();
    weights_.clear();
    d_weights_.clear();
    d_weight_errors_.clear();
    double weighted = 0, squares = 0, term_squares = 0;
    for (size_t x = 0; x < row.keys.size(); ++x) {
      const double weight = number(row.weights[x]), d_weight = number(row.d_weights[x]);
      weight_errors_.push_back(std::visit(
          [&](const auto& n) { return n.weight_error_again(score_of(x), weight, statistic, off_); },
          forward.normalizer));
      weights_.push_back(weight);
      d_weights_.push_back(static_cast<double>(row.d_weights[x]));
      d_weight_errors_.push_back((sum_ + left_out_of_gradients_.rows) * number(row.value_terms[x]));
      weighted += weight_errors_[x] * d_weight;
      squares += weight * d_weight * (weight * d_weight);
      const double term = weight * number(row.value_terms[x]);
      term_squares += term * term;
    }
    const double of_output =
        weighted + sum_ * number(row.output_terms) + output_roundoff_ * number(row.output_squares) +
        weight_roundoff_ * (number(row.output_terms) + std::sqrt(squares)) +
        left_out_.weights * (number(row.output_terms) + std::sqrt(term_squares)) +
        kEpsilon * number(row.given_terms);
    delta_ = std::visit(
        [&](const auto& n) {
          return n.delta_error({weights_, d_weights_, static_cast<double>(row.d_statistic), 0},
                               static_cast<double>(row.delta),
                               {weight_errors_, d_weight_errors_, of_output}, off_);
        },
        forward.normalizer);
    ds_.clear();
    dz_.clear();
    for (size_t x = 0; x < row.keys.size(); ++x) {
      const double difference = number(row.d_weights[x] - row.delta);
      const PairErrors of{weight_errors_[x], d_weight_errors_[x], delta_};
      const double ds =
          std::visit(
              [&](const auto& n) {
                return n.d_score_error(score_of(x), number(row.weights[x]), d_weights_[x],
                                       static_cast<double>(row.delta), statistic, of, off_);
              },
              forward.normalizer) +
          kTiny * (1 + difference);
      ds_.push_back(ds);
      dz_.push_back(ds * number(row.slopes[x].value) +
                    number(row.d_scores[x]) * kEpsilon * row.slopes[x].value_error);
    }
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
  RelativeFloors<Wide> relative_;
  bool bias_per_row_ = false;
  // Of the current row:
  double delta_ = 0;  // the error of delta
  Off off_ = {};
  // Of the unmasked keys:
  std::vector<double> scores_, weights_, d_weights_, weight_errors_, d_weight_errors_, ds_, dz_;
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
  const auto stored = [&](Expectation& into, const std::vector<Wide>& wide,
                          const std::vector<Real>& narrow, const std::vector<long double>& squares,
                          double factor) {
    fill(into, wide, narrow);
    for (size_t i = 0; i < wide.size(); ++i)
      into.floor.push_back(floors.stored(squares[i], factor, wide[i]));
  };
  stored(e.query, truth.query, plain.query, floors.query, floors.scale_of_products());
  stored(e.key, truth.key, plain.key, floors.key, floors.scale_of_products());
  stored(e.value, truth.value, plain.value, floors.value, 1);
  fill(e.bias, truth.bias, plain.bias);
  for (const long double squares : floors.bias) e.bias.floor.push_back(floors.summed(squares, 1));
  fill(e.scale, {truth.scale}, {plain.scale});
  e.scale.floor = {floors.summed(floors.scale, 1)};
  fill(e.numbers, truth.numbers, plain.numbers);
  for (const long double squares : floors.numbers)
    e.numbers.floor.push_back(floors.summed(squares, 1));
  if (has_gradient(p.normalizer)) {
    fill(e.normalizer, {truth.normalizer}, {plain.normalizer});
    e.normalizer.floor = {floors.summed(floors.normalizer, 1)};
  }
  for (size_t part = 0; part < RelativeSpec::kParts; ++part) {
    fill(e.relative[part], truth.relative[part], plain.relative[part]);
    const double factor = part == RelativeSpec::values ? 1 : floors.scale_of_products();
    for (const long double squares : floors.relative(part))
      e.relative[part].floor.push_back(floors.summed(squares, factor));
  }
  return e;
}

}  // namespace

GradientExpectations gradient_expectations(const Problem& problem, const Incoming& incoming,
                                           const Sample& sample) {
  return problem.query.dtype == DType::f64 ? expect<double, long double>(problem, incoming, sample)
                                           : expect<float, double>(problem, incoming, sample);
}

}  // namespace check
