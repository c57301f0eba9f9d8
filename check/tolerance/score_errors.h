#pragma once
// The rounding errors of the scores of a query, in units of e (dual_numbers.h): F and B of
// tolerance.h. A product with relative positions is three sums over d, each in any order, and their
// sum, which has at most two roundings of the numbers that are added.
#include "check/reference/reference.h"
#include "check/tolerance/row_errors.h"

namespace check {

// A number of a score as a kernel uses it.
template <class Real>
Dual<Real> number_of(const ScoreSpec& spec, int64_t at) {
  return of_double<Dual<Real>>(spec.number(at));
}

// The score functions with the error that they make of a product's error.
template <class Real>
ScoreChain<Dual<Real>> chain_of(std::span<const ScoreSpec> scores, const Dual<Real>& product,
                                const PairPlace& place) {
  return chain_of(scores, product, place, number_of<Real>, [](const Dual<Real>& s, const auto& f) {
    PairScore<Dual<Real>> y = f(Dual<Real>(s.value, 1));
    y.value = still(y.value, s), y.slope = still(y.slope, s);
    for (Dual<Real>& by : y.by_number) by = still(by, s);
    return y;
  });
}

// The errors of query . key.
template <class Real>
struct ProductErrors {
  Real terms = 0;  // |sum| + sqrt(sum of squares), for each of the sums
  Real added = 0;  // further errors, in units of e: the sum of |sums|, if there are several, and
                   // the errors of transformed rows
};

// The errors of the products and scores of one problem, head after head.
template <class Real>
class ScoreErrors {
 public:
  explicit ScoreErrors(const Problem& p)
      : p_(p), sizes_(sizes_of(p)), scale_(scale_of<Real>(p, sizes_)) {}

  // Before the rows of another head.
  void enter(const HeadInputs<Real>& head) {
    head_ = &head;
    if (!p_.rows.any()) return;
    const RowErrors<Real> of_query(query_transform<Real>(p_, sizes_, head.leading)),
        of_key(key_transform<Real>(p_, sizes_, head.leading));
    query_errors_ = errors_of(of_query, p_.query, sizes_.q_len);
    key_errors_ = errors_of(of_key, p_.key, sizes_.k_len);
  }

  // The error of element d of a row of query or key after its transform.
  double query_error(int64_t i, int64_t d) const { return error(query_errors_, i, d); }
  double key_error(int64_t j, int64_t d) const { return error(key_errors_, j, d); }

  ProductErrors<Real> of_product(int64_t i, const Pair<Real>& pair) const {
    ProductErrors<Real> errors = of_sums(i, pair);
    errors.added += static_cast<Real>(of_rows(i, pair));
    return errors;
  }

  // The chain of a pair, with its errors.
  ScoreChain<Dual<Real>> chain(const Pair<Real>& pair, const ProductErrors<Real>& errors) const {
    return chain(pair, scaled(pair, errors));
  }

  // The largest error of a finite score of the row.
  double of_row(const Row<Real>& row) const {
    double most = 0;
    for (const Pair<Real>& pair : row.pairs) {
      const double of_changed = of_rows(row.index, pair);
      const bool jumps = of_changed > 0 && rapt::size_of(p_.query.dtype) == 2;
      ProductErrors<Real> errors = of_sums(row.index, pair);
      if (!jumps) errors.added += static_cast<Real>(of_changed);
      const Dual<Real> z = scaled(pair, errors), s = chain(pair, z).score;
      double error = s.value_error + (p_.bias_first ? 0 : size(pair.bias));
      if (jumps) error += jump_of(z, s, of_changed, pair);
      if (std::isfinite(pair.score)) most = std::max(most, error);
    }
    return most;
  }

 private:
  std::vector<double> errors_of(const RowErrors<Real>& transform, const rapt::TensorView& t,
                                int64_t rows) const {
    const int64_t width = sizes_.head_dim;
    const auto given = values_of<Real>(matrix_of(t, head_->leading, sizes_.leading), rows, width);
    std::vector<double> errors(given.size());
    for (int64_t r = 0; r < rows; ++r)
      transform.of_change(r, given.data() + r * width, errors.data() + r * width);
    return errors;
  }
  double error(const std::vector<double>& of, int64_t row, int64_t d) const {
    return of.empty() ? 0 : of[static_cast<size_t>(row * sizes_.head_dim + d)];
  }

  // The effect of the errors of transformed rows on their product.
  double of_rows(int64_t i, const Pair<Real>& pair) const {
    if (!p_.rows.any()) return 0;
    const Real *query = head_->query_row(i), *key = head_->key_row(pair.key);
    double error = 0;
    for (int64_t d = 0; d < sizes_.head_dim; ++d)
      error += query_error(i, d) * size(key[d]) + size(query[d]) * key_error(pair.key, d);
    return error;
  }

  ProductErrors<Real> of_sums(int64_t i, const Pair<Real>& pair) const {
    const RelativeRows<Real>& tables = head_->relative;
    const Real *query = head_->query_row(i), *key = head_->key_row(pair.key);
    const bool keys = tables.has(RelativeSpec::keys), queries = tables.has(RelativeSpec::queries);
    Dot<Real> with_key, with_rows, with_query_rows;
    for (int64_t d = 0; d < sizes_.head_dim; ++d) {
      with_key.add(tables.query_of_keys(query, d), key[d]);
      if (keys)
        with_rows.add(tables.query_of_rows(query, d),
                      tables.number(RelativeSpec::keys, pair.table_row, d));
      if (queries)
        with_query_rows.add(key[d], tables.number(RelativeSpec::queries, pair.table_row, d));
    }
    ProductErrors<Real> errors;
    for (const Dot<Real>* part : {&with_key, &with_rows, &with_query_rows}) {
      errors.terms += part->terms();
      if (keys || queries) errors.added += std::abs(part->sum);
    }
    return errors;
  }

  // A scaled product as a kernel computes it: with errors of the scale, of sums over head_dim in
  // any order, and of the parts that are left out.
  Dual<Real> scaled(const Pair<Real>& pair, const ProductErrors<Real>& errors) const {
    constexpr double e = std::numeric_limits<float>::epsilon();  // nothing is left out of f64
    const double grows =
        1 + std::sqrt(static_cast<double>(sizes_.head_dim)) / 4 + p_.left_out.rows / e;
    return {scale_ * pair.dot, 0, size(scale_ * errors.terms) * grows + size(scale_ * errors.added),
            0};
  }

  ScoreChain<Dual<Real>> chain(const Pair<Real>& pair, const Dual<Real>& z) const {
    return chain_of(p_.scores, p_.bias_first ? z + Dual<Real>(pair.bias) : z, pair.place);
  }

  // The effect of rows that were rounded to another number on the score s = f(z); scores are
  // monotone in z. It counts twice, and may be so large that a weight changes by e^x - 1 of itself
  // and not by x.
  double jump_of(const Dual<Real>& z, const Dual<Real>& s, double of_rows,
                 const Pair<Real>& pair) const {
    constexpr double e = std::numeric_limits<float>::epsilon();
    const Real way = scale_ * static_cast<Real>(of_rows / 2 * e);
    double most = 0;
    for (const Real to : {z.value - way, z.value + way})
      most = std::max(most, size(chain(pair, Dual<Real>(to)).score.value - s.value));
    return std::expm1(2 * most) / e;
  }

  const Problem& p_;
  const Sizes sizes_;
  const Real scale_;
  const HeadInputs<Real>* head_ = nullptr;
  std::vector<double> query_errors_, key_errors_;  // as query and key, if rows are transformed
};

// The largest error of a score of the row, in units of e.
template <class Real>
double score_error_of(const Problem& p, const Row<Real>& row) {
  ScoreErrors<Real> errors(p);
  errors.enter(*row.inputs);
  return errors.of_row(row);
}

}  // namespace check
