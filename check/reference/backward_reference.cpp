#include "check/reference/backward_reference.h"

#include <cmath>

#include "check/reference/philox.h"
#include "check/reference/sum_of_products.h"
#include "check/tensors/reference_matrix.h"

namespace check {
namespace {

using rapt::DType;
using rapt::Shape;
using rapt::TensorView;
using Index = std::vector<int64_t>;

// A vector [..., n] as a matrix [..., n, 1].
TensorView as_column(const TensorView& t) {
  TensorView column = t;
  ++column.rank;
  column.shape[t.rank] = 1;
  column.strides[t.rank] = 0;
  return column;
}

// The view of a dense tensor of t's shape, for offsets.
TensorView dense_like(const TensorView& t) {
  TensorView dense = t;
  int64_t stride = 1;
  for (int i = t.rank; i-- > 0;) {
    dense.strides[i] = stride;
    stride *= t.shape[i];
  }
  return dense;
}

int64_t count_of(const TensorView& t) {
  int64_t count = 1;
  for (int i = 0; i < t.rank; ++i) count *= t.shape[i];
  return count;
}

template <class Real>
void change_all(const RowTransform<Real>& change, int64_t rows, std::vector<Real>& values,
                std::vector<double>& errors) {
  errors.resize(values.size());
  const size_t width = rows == 0 ? 0 : values.size() / static_cast<size_t>(rows);
  for (int64_t r = 0; r < rows; ++r) {
    const size_t begin = static_cast<size_t>(r) * width;
    change.change(r, &values[begin], &errors[begin]);
  }
}

template <class Real>
HeadInputs<Real> inputs_of(const Problem& p, const Incoming& in, const Sizes& sizes, int64_t head) {
  const Index leading = leading_index(head, sizes.leading);
  const auto values = [&](const TensorView& t, int64_t rows, int64_t columns) {
    return values_of<Real>(matrix_of(t, leading, sizes.leading), rows, columns);
  };
  return {sizes.head_dim,
          sizes.value_dim,
          values(p.query, sizes.q_len, sizes.head_dim),
          values(p.key, sizes.k_len, sizes.head_dim),
          values(p.value, sizes.k_len, sizes.value_dim),
          values(in.d_output, sizes.q_len, sizes.value_dim),
          RelativeRows<Real>(p.relative, p.query.dtype, leading, sizes.leading),
          {},
          {}};
}

// Adds the gradients of the returned weights of one row; a row that was returned twice has two.
template <class Real>
void add_given(const Incoming& in, const Sizes& sizes, const Row<Real>& row,
               std::vector<Real>& given) {
  const WeightsWanted& wanted = in.weights;
  const int64_t end = wanted.end < 0 ? sizes.q_len : wanted.end;
  const auto rows =
      wanted.rows.empty() ? end - wanted.begin : static_cast<int64_t>(wanted.rows.size());
  const auto heads = wanted.heads.empty() ? sizes.heads : static_cast<int64_t>(wanted.heads.size());
  // A view may have strides; [heads, rows, k_len] for flat indices.
  for (int64_t h = 0; h < heads; ++h) {
    if ((wanted.heads.empty() ? h : wanted.heads[static_cast<size_t>(h)]) != row.head) continue;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i =
          wanted.rows.empty() ? wanted.begin + r : wanted.rows[static_cast<size_t>(r)];
      if (i != row.index) continue;
      const Index leading = wanted.heads.empty() ? leading_index(h, sizes.leading) : Index{h};
      int64_t start = r * in.d_weights.strides[in.d_weights.rank - 2];
      for (size_t l = 0; l < leading.size(); ++l) start += leading[l] * in.d_weights.strides[l];
      for (size_t j = 0; j < given.size(); ++j)
        given[j] += static_cast<Real>(
            element(in.d_weights,
                    start + static_cast<int64_t>(j) * in.d_weights.strides[in.d_weights.rank - 1]));
    }
  }
}

template <class Real>
Real scale_of(const Problem& p, const Sizes& sizes) {
  return p.scale ? static_cast<Real>(*p.scale) : 1 / std::sqrt(static_cast<Real>(sizes.head_dim));
}

template <class Real>
class RowOfGradients {
 public:
  RowOfGradients(const Problem& p, const Incoming& in, const Sizes& sizes)
      : p_(p),
        in_(in),
        sizes_(sizes),
        scale_(scale_of<Real>(p, sizes)),
        query_change_(query_change<Real>(p, sizes)),
        key_change_(key_change<Real>(p, sizes)) {
    if (in.d_lse.defined()) d_lse_column_ = as_column(in.d_lse);
  }

  const GradientRow<Real>& of(const Row<Real>& row) {
    if (row.head != head_) enter(row.head);
    clear();
    g_.forward = &row;
    g_.inputs = &inputs_;
    Dot<Real> output;
    const Real* d_output = inputs_.d_output_row(row.index);
    for (size_t c = 0; c < row.output.size(); ++c) output.add(d_output[c], row.output[c]);
    const Real d_lse = in_.d_lse.defined() ? static_cast<Real>(d_lse_(row.index, 0)) : 0;
    g_.output_terms = output.terms();
    g_.output_squares = std::sqrt(output.squares);
    g_.given_terms = std::abs(d_lse);
    g_.d_statistic = d_lse;
    given_.assign(size_t(sizes_.k_len), 0);
    if (in_.d_weights.defined()) add_given(in_, sizes_, row, given_);
    Real given_sum = 0;
    for (int64_t j = 0; j < sizes_.k_len; ++j) {
      if (!row.seen[size_t(j)]) continue;
      const Real p = weigh(row, j);
      const Real given = given_[size_t(j)];
      pass_back(row, j, p, given);
      given_sum += p * given;
      g_.given_terms += p * std::abs(given);
    }
    std::visit(
        [&](const auto& n) {
          g_.delta = n.delta(
              RowToPassBack<Real>{g_.weights, g_.d_weights, d_lse, output.sum + given_sum - d_lse});
          for (size_t x = 0; x < g_.keys.size(); ++x)
            g_.d_scores.push_back(
                n.d_score(g_.scores[x], g_.weights[x], g_.d_weights[x], g_.delta, row.statistic));
        },
        row.normalizer);
    for (size_t x = 0; x < g_.keys.size(); ++x)
      g_.d_products.push_back(g_.d_scores[x] * g_.slopes[x].value);
    return g_;
  }

 private:
  // Clears the values per key; their memory stays allocated for the next row.
  void clear() {
    g_.keys.clear();
    g_.rows.clear();
    g_.products.clear();
    g_.slopes.clear();
    g_.number_slopes.clear();
    g_.number_at.clear();
    for (std::vector<Real>* of_keys : {&g_.dots, &g_.scores, &g_.weights, &g_.kept, &g_.d_weights,
                                       &g_.d_scores, &g_.d_products, &g_.value_terms})
      of_keys->clear();
  }

  void enter(int64_t head) {
    head_ = head;
    inputs_ = inputs_of<Real>(p_, in_, sizes_, head);
    if (p_.rows.any()) {
      change_all(query_change_, sizes_.q_len, inputs_.query, inputs_.query_errors);
      change_all(key_change_, sizes_.k_len, inputs_.key, inputs_.key_errors);
    }
    leading_ = leading_index(head, sizes_.leading);
    if (p_.bias.defined()) bias_ = matrix_of(p_.bias, leading_, sizes_.leading);
    if (in_.d_lse.defined()) d_lse_ = matrix_of(d_lse_column_, leading_, sizes_.leading);
  }

  size_t place_in_rows(int64_t row) const { return static_cast<size_t>(row * sizes_.head_dim); }

  // The weight of key j from its score and the row's statistic, with the inputs of the score.
  Real weigh(const Row<Real>& row, int64_t j) {
    const PairPlace place = place_of(p_, sizes_, leading_, row.index, j);
    PairProduct<Real> product = inputs_.relative.product(
        inputs_.query_row(row.index), inputs_.key_row(j), sizes_.head_dim, place);
    if (p_.rows.any())
      product.added += static_cast<Real>(error_of_product(
          inputs_.query_row(row.index), &inputs_.query_errors[place_in_rows(row.index)],
          inputs_.key_row(j), &inputs_.key_errors[place_in_rows(j)], sizes_.head_dim));
    const Real bias = p_.bias.defined() ? static_cast<Real>(bias_(row.index, j)) : 0;
    Dual<Real> scaled = product_of(scale_, product, sizes_.head_dim, p_.left_out);
    if (p_.bias_first) scaled = scaled + Dual<Real>(bias);
    const auto chain = chain_of(p_.scores, scaled, place);
    const Real score = p_.bias_first ? chain.score.value : chain.score.value + bias;
    g_.number_slopes.insert(g_.number_slopes.end(), chain.by_number.begin(), chain.by_number.end());
    g_.number_at.insert(g_.number_at.end(), chain.number_at.begin(), chain.number_at.end());
    g_.keys.push_back(j);
    if (p_.relative.distances > 0) g_.rows.push_back(p_.relative.row(place));
    g_.dots.push_back(product.sum);
    g_.products.push_back(product);
    g_.slopes.push_back(chain.slope);
    g_.scores.push_back(score);
    g_.weights.push_back(std::visit(
        [&](const auto& n) { return n.weight(score, row.statistic, row.cut); }, row.normalizer));
    return g_.weights.back();
  }

  void pass_back(const Row<Real>& row, int64_t j, Real p, Real given) {
    const auto keep = dropout_factor<Real>(p_.dropout, p_.dropout_seed, row.head, row.index, j);
    const Real *d_output = inputs_.d_output_row(row.index), *value = inputs_.value_row(j);
    Dot<Real> dot;
    for (int64_t c = 0; c < sizes_.value_dim; ++c) dot.add(d_output[c], value[c]);
    Dot<Real> added;
    if (inputs_.relative.has(RelativeSpec::values)) {
      const Real* row_of_values = inputs_.relative.row(RelativeSpec::values, g_.rows.back());
      for (int64_t c = 0; c < sizes_.value_dim; ++c) added.add(d_output[c], row_of_values[c]);
    }
    g_.kept.push_back(keep * p);
    g_.d_weights.push_back(keep * (dot.sum + added.sum) + given);
    g_.value_terms.push_back(keep * (dot.terms() + added.terms()));
  }

  const Problem& p_;
  const Incoming& in_;
  const Sizes& sizes_;
  const Real scale_;
  const RowTransform<Real> query_change_, key_change_;
  TensorView d_lse_column_;
  int64_t head_ = -1;
  Index leading_;  // of the head
  HeadInputs<Real> inputs_;
  Matrix bias_, d_lse_;
  std::vector<Real> given_;  // [k_len], of d_weights in this row
  GradientRow<Real> g_;
};

// Sums of rows, dense in the shapes of the inputs.
template <class Real>
class Sums {
 public:
  Sums(const Problem& p, const Incoming& in, const Sizes& sizes)
      : p_(p), in_(in), sizes_(sizes), scale_(scale_of<Real>(p, sizes)) {
    const auto zeros = [](const TensorView& t) {
      return std::vector<Real>(size_t(count_of(t)), 0);
    };
    sums_.query = zeros(p.query);
    sums_.key = zeros(p.key);
    sums_.value = zeros(p.value);
    if (p.bias.defined()) sums_.bias = zeros(p.bias);
    sums_.numbers.assign(size_t(count_parameters_of(p.scores)), 0);
    for (size_t part = 0; part < RelativeSpec::kParts; ++part)
      if (p.relative.tables[part].there)
        sums_.relative[part] = zeros(p.relative.tables[part].numbers);
  }

  void add(const GradientRow<Real>& row) {
    if (row.forward->head != head_) enter(row.forward->head);
    const int64_t i = row.forward->index;
    const Real *query = row.inputs->query_row(i), *d_output = row.inputs->d_output_row(i);
    sums_.normalizer += std::visit(
        [&](const auto& n) {
          return n.d_number(
              RowToPassBack<Real>{row.weights, row.d_weights, row.d_statistic, row.delta},
              row.forward->statistic, row.delta);
        },
        row.forward->normalizer);
    for (size_t x = 0; x < row.keys.size(); ++x) {
      const int64_t j = row.keys[x];
      const Real* key = row.inputs->key_row(j);
      const RelativeRows<Real>& relative = row.inputs->relative;
      const Real dz = in_products(row.d_products[x]),
                 kept = row.forward->kept[static_cast<size_t>(j)] * in_products(row.weights[x]);
      for (int64_t d = 0; d < sizes_.head_dim; ++d) {
        sums_.query[query_(i, d)] += dz * key[d];
        sums_.key[key_(j, d)] += dz * relative.query_of_keys(query, d);
      }
      if (p_.relative.any()) add_relative(row, x, dz, kept);
      for (int64_t c = 0; c < sizes_.value_dim; ++c)
        sums_.value[value_(j, c)] += kept * d_output[c];
      if (p_.bias.defined())
        sums_.bias[bias_(i, j)] += p_.bias_first ? row.d_products[x] : row.d_scores[x];
      sums_.scale += dz * row.dots[x];
      for (size_t at = row.first_number_of(x); at < row.first_number_of(x + 1); ++at)
        if (row.number_at[at] >= 0)
          sums_.numbers[size_t(row.number_at[at])] += row.d_scores[x] * row.number_slopes[at].value;
    }
  }

  // The gradients with the scale, and in their dtype.
  Gradients<Real> finished() {
    const DType dtype = in_.gradient_dtype.value_or(p_.query.dtype);
    if (p_.rows.any()) change_rows_back();
    for (std::vector<Real>* scaled : {&sums_.query, &sums_.key})
      for (Real& x : *scaled) x *= scale_;
    for (size_t part = 0; part < RelativeSpec::kParts; ++part)
      for (Real& x : sums_.relative[part])
        if (part != RelativeSpec::values) x *= scale_;
    if (std::is_same_v<Real, float>)
      for (std::vector<Real>* stored : {&sums_.query, &sums_.key, &sums_.value})
        for (Real& x : *stored) x = rounded(dtype, x);
    return std::move(sums_);
  }

 private:
  void change_rows_back() {
    sums_.transformed_query = sums_.query;
    sums_.transformed_key = sums_.key;
    std::vector<double> errors(sums_.query.size(), 0);
    transform_back(query_change<Real>(p_, sizes_), p_.query, sums_.query, errors);
    errors.assign(sums_.key.size(), 0);
    transform_back(key_change<Real>(p_, sizes_), p_.key, sums_.key, errors);
  }

  // A weight, or the gradient of a score, in the form in which products with rows use it.
  Real in_products(Real x) const {
    return std::is_same_v<Real, float> && rounds_products(p_) ? rounded(p_.query.dtype, x) : x;
  }

  // Adds the contributions of pair x of the row through the tables, and to the tables.
  void add_relative(const GradientRow<Real>& row, size_t x, Real dz, Real kept) {
    const RelativeRows<Real>& tables = row.inputs->relative;
    const int64_t i = row.forward->index, j = row.keys[x], r = row.row_of(x);
    const Real *query = row.inputs->query_row(i), *key = row.inputs->key_row(j);
    const auto add = [&](RelativeSpec::Part part, int64_t at, int64_t d, Real term) {
      if (tables.has(part)) sums_.relative[part][relative_[part](at, d)] += term;
    };
    for (int64_t d = 0; d < sizes_.head_dim; ++d) {
      const Real key_row = tables.number(RelativeSpec::keys, r, d);
      sums_.query[query_(i, d)] += dz * key_row;
      sums_.key[key_(j, d)] += dz * tables.number(RelativeSpec::queries, r, d);
      add(RelativeSpec::keys, r, d, dz * tables.query_of_rows(query, d));
      add(RelativeSpec::queries, r, d, dz * key[d]);
      add(RelativeSpec::content, 0, d, dz * key[d]);
      add(RelativeSpec::position, 0, d, dz * key_row);
    }
    const Real* d_output = row.inputs->d_output_row(i);
    for (int64_t c = 0; c < sizes_.value_dim; ++c)
      add(RelativeSpec::values, r, c, kept * d_output[c]);
  }

  void enter(int64_t head) {
    head_ = head;
    query_ = places_of(p_.query, head, sizes_);
    key_ = places_of(p_.key, head, sizes_);
    value_ = places_of(p_.value, head, sizes_);
    if (p_.bias.defined()) bias_ = places_of(p_.bias, head, sizes_);
    relative_ = relative_places_of(p_.relative, head, sizes_);
  }

  const Problem& p_;
  const Incoming& in_;
  const Sizes sizes_;
  const Real scale_;
  int64_t head_ = -1;
  Places query_, key_, value_, bias_;
  RelativePlaces relative_;
  Gradients<Real> sums_;
};

}  // namespace

Places places_of(const TensorView& t, int64_t head, const Sizes& sizes) {
  const TensorView dense = dense_like(t);
  const Matrix m = matrix_of(dense, leading_index(head, sizes.leading), sizes.leading);
  return {m.start, m.row_stride, m.column_stride};
}

RelativePlaces relative_places_of(const RelativeSpec& relative, int64_t head, const Sizes& sizes) {
  RelativePlaces places;
  for (size_t part = 0; part < RelativeSpec::kParts; ++part)
    if (relative.tables[part].there) places[part] = places_of(relative.as_rows(part), head, sizes);
  return places;
}

template <class Real>
void transform_back(const RowTransform<Real>& change, const TensorView& t,
                    std::vector<Real>& gradients, std::vector<double>& errors) {
  if (gradients.empty()) return;
  const int64_t rows = t.shape[t.rank - 2], width = t.shape[t.rank - 1];
  const Shape own(t.shape, static_cast<size_t>(t.rank - 2));
  const int64_t matrices = count_of(t) / (rows * width);
  size_t at = 0;
  for (int64_t m = 0; m < matrices; ++m) {
    const auto given = values_of<Real>(matrix_of(t, leading_index(m, own), own), rows, width);
    for (int64_t r = 0; r < rows; ++r, at += static_cast<size_t>(width))
      change.transform_back(r, &given[static_cast<size_t>(r * width)], &gradients[at], &errors[at]);
  }
}

template <class Real>
void for_each_gradient_row(const Problem& p, const Incoming& in, const Sample& sample,
                           const std::function<void(const GradientRow<Real>&)>& visit) {
  const Sizes sizes = sizes_of(p);
  RowOfGradients<Real> gradients(p, in, sizes);
  for_each_row<Real>(p, sample, [&](const Row<Real>& row) { visit(gradients.of(row)); });
}

template <class Real>
Gradients<Real> gradients(const Problem& p, const Incoming& in, const Sample& sample,
                          const std::function<void(const GradientRow<Real>&)>& also) {
  Sums<Real> sums(p, in, sizes_of(p));
  for_each_gradient_row<Real>(p, in, sample, [&](const GradientRow<Real>& row) {
    sums.add(row);
    if (also) also(row);
  });
  return sums.finished();
}

#define RAPT_CHECK_INSTANTIATE(Real)                                                               \
  template void transform_back(const RowTransform<Real>&, const TensorView&, std::vector<Real>&,   \
                               std::vector<double>&);                                              \
  template void for_each_gradient_row<Real>(const Problem&, const Incoming&, const Sample&,        \
                                            const std::function<void(const GradientRow<Real>&)>&); \
  template Gradients<Real> gradients(const Problem&, const Incoming&, const Sample&,               \
                                     const std::function<void(const GradientRow<Real>&)>&);
RAPT_CHECK_INSTANTIATE(float)
RAPT_CHECK_INSTANTIATE(double)
RAPT_CHECK_INSTANTIATE(long double)
#undef RAPT_CHECK_INSTANTIATE

}  // namespace check
