#include "check/reference/backward_reference.h"

#include <cmath>

#include "check/reference/captured.h"

namespace check {
namespace {

using rapt::DType;
using rapt::TensorView;

// A gradient times the derivative of a score. A gradient of 0 stays 0, whatever the score is.
template <class Real>
Real times(Real d_score, Real derivative) {
  return d_score == 0 ? Real{0} : d_score * derivative;
}

// Whether a pair has no part in sums: its weight is 0, and the normaliser is sparse.
template <class Real>
bool is_left_out(const GradientRow<Real>& g, size_t x) {
  return g.weights[x] == 0 && is_sparse(g.forward->normalizer);
}

// Adds the gradients of the returned weights of one row; a row that was returned twice has two.
template <class Real>
void add_given(const Incoming& in, const Sizes& sizes, const Row<Real>& row,
               std::vector<Real>& given) {
  for_weights_rows(in.weights, sizes.q_len, row.head, row.index, [&](int64_t at) {
    for (size_t x = 0; x < row.pairs.size(); ++x)
      given[x] += static_cast<Real>(element(in.d_weights, at * sizes.k_len + row.pairs[x].key));
  });
}

// Passes the gradients of the results of one query back to its pairs.
template <class Real>
GradientRow<Real> passed_back(const Incoming& in, const Sizes& sizes, const Row<Real>& row) {
  const int64_t nth = row.head * sizes.q_len + row.index;  // of all rows
  GradientRow<Real> g;
  g.forward = &row;
  Real of_output = 0;
  for (int64_t c = 0; c < sizes.value_dim; ++c) {
    g.d_output.push_back(static_cast<Real>(element(in.d_output, nth * sizes.value_dim + c)));
    of_output += g.d_output.back() * row.output[static_cast<size_t>(c)];
  }
  if (in.d_lse.defined()) g.d_statistic = static_cast<Real>(element(in.d_lse, nth));
  g.given.assign(row.pairs.size(), 0);
  if (in.d_weights.defined()) add_given(in, sizes, row, g.given);
  Real given_sum = 0;
  for (size_t x = 0; x < row.pairs.size(); ++x) {
    const Pair<Real>& pair = row.pairs[x];
    g.weights.push_back(std::visit(
        [&](const auto& n) { return n.weight(pair.score, row.weighed.statistic, row.weighed.cut); },
        row.normalizer));
    const RelativeRows<Real>& relative = row.inputs->relative;
    Real of_value = 0, of_row = 0;
    for (int64_t c = 0; c < sizes.value_dim; ++c) {
      const Real d = g.d_output[static_cast<size_t>(c)];
      of_value += d * row.inputs->value_row(pair.key)[c];
      if (relative.has(RelativeSpec::values))
        of_row += d * relative.number(RelativeSpec::values, pair.table_row, c);
    }
    g.d_weights.push_back(pair.kept * (of_value + of_row) + g.given[x]);
    if (!is_left_out(g, x)) given_sum += g.weights[x] * g.given[x];
  }
  std::visit(
      [&](const auto& n) {
        g.delta = n.delta(g.to_pass_back(of_output + given_sum - g.d_statistic));
        for (size_t x = 0; x < row.pairs.size(); ++x)
          g.d_scores.push_back(n.d_score(row.pairs[x].score, g.weights[x], g.d_weights[x], g.delta,
                                         row.weighed.statistic));
      },
      row.normalizer);
  for (size_t x = 0; x < row.pairs.size(); ++x)
    g.d_products.push_back(times(g.d_scores[x], row.pairs[x].chain.slope));
  return g;
}

// Sums of rows, dense in the shapes of the inputs.
template <class Real>
class Sums {
 public:
  Sums(const Problem& p, const Incoming& in) : p_(p), in_(in), sizes_(sizes_of(p)) {
    const auto zeros = [](int64_t count) { return std::vector<Real>(static_cast<size_t>(count)); };
    sums_.query = zeros(p.query.count());
    sums_.key = zeros(p.key.count());
    sums_.value = zeros(p.value.count());
    sums_.bias = zeros(p.bias.count());
    sums_.numbers = zeros(count_parameters_of(p.scores));
    for (size_t part = 0; part < RelativeSpec::kParts; ++part)
      if (p.relative.tables[part].there)
        sums_.relative[part] = zeros(p.relative.tables[part].numbers.count());
  }

  void add(const GradientRow<Real>& g) {
    const Row<Real>& row = *g.forward;
    if (row.head != head_) enter(row.head);
    const int64_t i = row.index;
    const Real* query = row.inputs->query_row(i);
    sums_.normalizer += std::visit(
        [&](const auto& n) {
          return n.d_number(g.to_pass_back(0), row.weighed.statistic, g.delta);
        },
        row.normalizer);
    for (size_t x = 0; x < row.pairs.size(); ++x) {
      if (is_left_out(g, x)) continue;
      const Pair<Real>& pair = row.pairs[x];
      const int64_t j = pair.key;
      const Real* key = row.inputs->key_row(j);
      const Real dz = p_.constant_scores ? 0 : in_products(g.d_products[x]);
      const Real kept = pair.kept * in_products(g.weights[x]);
      for (int64_t d = 0; d < sizes_.head_dim; ++d) {
        sums_.query[query_(i, d)] += dz * key[d];
        sums_.key[key_(j, d)] += dz * row.inputs->relative.query_of_keys(query, d);
      }
      for (int64_t c = 0; c < sizes_.value_dim; ++c)
        sums_.value[value_(j, c)] += kept * g.d_output[static_cast<size_t>(c)];
      if (p_.relative.any()) add_relative(g, pair, dz, kept);
      if (p_.bias.defined())
        sums_.bias[bias_(i, j)] += p_.bias_first ? g.d_products[x] : g.d_scores[x];
      sums_.scale += dz * pair.dot;
      for (size_t n = 0; n < pair.chain.number_at.size(); ++n)
        if (const int64_t at = pair.chain.number_at[n]; at >= 0)
          sums_.numbers[static_cast<size_t>(at)] += times(g.d_scores[x], pair.chain.by_number[n]);
    }
  }

  // The gradients with the scale, and in their dtype.
  Gradients<Real> finished() {
    if (p_.rows.any()) {
      sums_.transformed_query = sums_.query;
      sums_.transformed_key = sums_.key;
      transform_back(query_transform<Real>(p_, sizes_), p_.query, sums_.query);
      transform_back(key_transform<Real>(p_, sizes_), p_.key, sums_.key);
    }
    const Real scale = scale_of<Real>(p_, sizes_);
    for (std::vector<Real>* scaled : {&sums_.query, &sums_.key})
      for (Real& x : *scaled) x *= scale;
    for (size_t part = 0; part < RelativeSpec::kParts; ++part)
      for (Real& x : sums_.relative[part])
        if (part != RelativeSpec::values) x *= scale;
    const DType dtype = in_.gradient_dtype.value_or(p_.query.dtype);
    if (std::is_same_v<Real, float>)
      for (std::vector<Real>* stored : {&sums_.query, &sums_.key, &sums_.value})
        for (Real& x : *stored) x = rounded(dtype, x);
    return std::move(sums_);
  }

 private:
  static void transform_back(const RowTransform<Real>& transform, const TensorView& t,
                             std::vector<Real>& gradients) {
    for_each_matrix_row<Real>(t, [&](int64_t r, const Real* given, size_t at) {
      transform.transform_back(r, given, &gradients[at]);
    });
  }

  // A weight, or the gradient of a score, in the form in which products with rows use it.
  Real in_products(Real x) const {
    if (!std::is_same_v<Real, float>) return x;
    if (p_.in_parts) return sum_of_parts(x);
    return rounds_products(p_) ? rounded(p_.query.dtype, x) : x;
  }

  // Adds the contributions of a pair through the tables, and to the tables.
  void add_relative(const GradientRow<Real>& g, const Pair<Real>& pair, Real dz, Real kept) {
    const RelativeRows<Real>& tables = g.forward->inputs->relative;
    const int64_t i = g.forward->index, j = pair.key, r = pair.table_row;
    const Real *query = g.forward->inputs->query_row(i), *key = g.forward->inputs->key_row(j);
    const auto add = [&](RelativeSpec::Part part, int64_t at, int64_t d, Real term) {
      if (tables.has(part)) sums_.relative[part][relative_[part](at, d)] += term;
    };
    for (int64_t d = 0; d < sizes_.head_dim; ++d) {
      const Real key_row = tables.number(RelativeSpec::keys, r, d);
      if (tables.has(RelativeSpec::keys)) sums_.query[query_(i, d)] += dz * key_row;
      if (tables.has(RelativeSpec::queries))
        sums_.key[key_(j, d)] += dz * tables.number(RelativeSpec::queries, r, d);
      add(RelativeSpec::keys, r, d, dz * tables.query_of_rows(query, d));
      add(RelativeSpec::queries, r, d, dz * key[d]);
      add(RelativeSpec::content, 0, d, dz * key[d]);
      add(RelativeSpec::position, 0, d, dz * key_row);
    }
    for (int64_t c = 0; c < sizes_.value_dim; ++c)
      add(RelativeSpec::values, r, c, kept * g.d_output[static_cast<size_t>(c)]);
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
  int64_t head_ = -1;
  Places query_, key_, value_, bias_;
  RelativePlaces relative_;
  Gradients<Real> sums_;
};

}  // namespace

Places places_of(const TensorView& t, int64_t head, const Sizes& sizes) {
  TensorView dense = t;
  int64_t stride = 1;
  for (int i = t.rank; i-- > 0; stride *= t.shape[i]) dense.strides[i] = stride;
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
Gradients<Real> gradients(const Problem& p, const Incoming& in, const Sample& sample,
                          const std::function<void(const GradientRow<Real>&)>& also) {
  const Sizes sizes = sizes_of(p);
  Sums<Real> sums(p, in);
  attention<Real>(p, {}, sample, [&](const Row<Real>& row) {
    const GradientRow<Real> g = passed_back(in, sizes, row);
    sums.add(g);
    if (also) also(g);
  });
  return sums.finished();
}

template Gradients<float> gradients(const Problem&, const Incoming&, const Sample&,
                                    const std::function<void(const GradientRow<float>&)>&);
template Gradients<double> gradients(const Problem&, const Incoming&, const Sample&,
                                     const std::function<void(const GradientRow<double>&)>&);
template Gradients<long double> gradients(
    const Problem&, const Incoming&, const Sample&,
    const std::function<void(const GradientRow<long double>&)>&);

}  // namespace check
