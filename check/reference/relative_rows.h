#pragma once
// The products of one head with relative positions (relative_spec.h). With c the row of the pair, u
// the content bias and v the position bias:
//
//   product(i, j) = (query(i) + u) . key(j) + (query(i) + v) . key_rows(c)
//                   + key(j) . query_rows(c)
//   output(i)     = sum_j weight(i, j) (value(j) + value_rows(c))
//
// without the terms of absent tables. query + u and query + v are rounded to the query's dtype, as
// a sum of two of its numbers (16 bits: of an f32 sum), even where the rest is exact: this rounding
// is part of the call's definition.
// Sources: Shaw et al. 2018, arXiv:1803.02155; Dai et al. 2019, arXiv:1901.02860; He et al. 2020,
// arXiv:2006.03654.
//
// Errors: three sums over d, each in any order, and their sum, which has at most two roundings of
// the numbers that are added.

#include "check/reference/sum_of_products.h"
#include "check/spec/relative_spec.h"
#include "check/tensors/reference_matrix.h"

namespace check {

// The sum of all products of a pair, and its error bound.
template <class Real>
struct PairProduct {
  Real sum = 0;
  Real terms = 0;  // |sum| + sqrt(sum of squares), for each of the sums
  Real added = 0;  // further errors, in units of e: the sum of |sums|, if there are several, and
                   // the errors of transformed rows
};

template <class Real>
class RelativeRows {
 public:
  RelativeRows() = default;
  // The tables of the head at `leading` of the dimensions `lengths`.
  RelativeRows(const RelativeSpec& spec, rapt::DType dtype, std::span<const int64_t> leading,
               std::span<const int64_t> lengths)
      : spec_(&spec), dtype_(dtype) {
    for (size_t part = 0; part < RelativeSpec::kParts; ++part) {
      if (!spec.tables[part].there) continue;
      const rapt::TensorView t = spec.as_rows(part);
      numbers_[part] =
          values_of<Real>(matrix_of(t, leading, lengths), t.shape[t.rank - 2], t.shape[t.rank - 1]);
      width_[part] = t.shape[t.rank - 1];
    }
  }

  bool has(RelativeSpec::Part part) const { return !numbers_[part].empty(); }
  // Row `row` of a table; a bias has only row 0.
  const Real* row(RelativeSpec::Part part, int64_t row) const {
    return numbers_[part].data() + row * width_[part];
  }

  // An element of a row; 0 without the table.
  Real number(RelativeSpec::Part part, int64_t at, int64_t d) const {
    return has(part) ? row(part, at)[d] : 0;
  }

  // Element d of the query that is multiplied by keys, and of the one multiplied by key_rows.
  Real query_of_keys(const Real* query, int64_t d) const {
    return changed(query, d, RelativeSpec::content);
  }
  Real query_of_rows(const Real* query, int64_t d) const {
    return changed(query, d, RelativeSpec::position);
  }
  PairProduct<Real> product(const Real* query, const Real* key, int64_t head_dim,
                            const PairPlace& place) const {
    const bool keys = has(RelativeSpec::keys), queries = has(RelativeSpec::queries);
    Dot<Real> with_key, with_rows, with_query_rows;
    const int64_t c = keys || queries ? spec_->row(place) : 0;
    for (int64_t d = 0; d < head_dim; ++d) {
      with_key.add(query_of_keys(query, d), key[d]);
      if (keys) with_rows.add(query_of_rows(query, d), row(RelativeSpec::keys, c)[d]);
      if (queries) with_query_rows.add(key[d], row(RelativeSpec::queries, c)[d]);
    }
    PairProduct<Real> pair;
    pair.sum = with_key.sum;
    if (keys) pair.sum += with_rows.sum;
    if (queries) pair.sum += with_query_rows.sum;
    for (const Dot<Real>* part : {&with_key, &with_rows, &with_query_rows}) {
      pair.terms += part->terms();
      if (keys || queries) pair.added += std::abs(part->sum);
    }
    return pair;
  }

 private:
  Real changed(const Real* query, int64_t d, RelativeSpec::Part bias) const {
    if (!has(bias)) return query[d];
    const Real shift = number(bias, 0, d);
    if (dtype_ == rapt::DType::f64)
      return static_cast<Real>(static_cast<double>(query[d]) + static_cast<double>(shift));
    return rounded<Real>(dtype_, static_cast<float>(query[d]) + static_cast<float>(shift));
  }

  const RelativeSpec* spec_ = nullptr;
  rapt::DType dtype_ = rapt::DType::f32;
  std::array<std::vector<Real>, RelativeSpec::kParts> numbers_;  // dense
  std::array<int64_t, RelativeSpec::kParts> width_ = {};
};

}  // namespace check
