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
#include "check/spec/relative_spec.h"
#include "check/tensors/reference_matrix.h"

namespace check {

template <class Real>
class RelativeRows {
 public:
  RelativeRows() = default;
  // The tables of the head at `leading` of the dimensions `lengths`.
  RelativeRows(const RelativeSpec& spec, rapt::DType dtype, std::span<const int64_t> leading,
               std::span<const int64_t> lengths)
      : dtype_(dtype) {
    for (size_t part = 0; part < RelativeSpec::kParts; ++part) {
      if (!spec.tables[part].there) continue;
      const rapt::TensorView t = spec.as_rows(part);
      width_[part] = t.shape[t.rank - 1];
      numbers_[part] =
          values_of<Real>(matrix_of(t, leading, lengths), t.shape[t.rank - 2], width_[part]);
    }
  }

  bool has(RelativeSpec::Part part) const { return !numbers_[part].empty(); }
  // Element d of row `row` of a table, 0 without the table; a bias has only row 0.
  Real number(RelativeSpec::Part part, int64_t row, int64_t d) const {
    return has(part) ? numbers_[part][static_cast<size_t>(row * width_[part] + d)] : 0;
  }
  // Element d of the query that is multiplied by keys, and of the one multiplied by key_rows.
  Real query_of_keys(const Real* query, int64_t d) const {
    return shifted(query[d], d, RelativeSpec::content);
  }
  Real query_of_rows(const Real* query, int64_t d) const {
    return shifted(query[d], d, RelativeSpec::position);
  }
  Real product(const Real* query, const Real* key, int64_t head_dim, int64_t row) const {
    Real with_key = 0, with_rows = 0, with_query_rows = 0;
    for (int64_t d = 0; d < head_dim; ++d) {
      with_key += query_of_keys(query, d) * key[d];
      if (has(RelativeSpec::keys))
        with_rows += query_of_rows(query, d) * number(RelativeSpec::keys, row, d);
      if (has(RelativeSpec::queries))
        with_query_rows += key[d] * number(RelativeSpec::queries, row, d);
    }
    return with_key + with_rows + with_query_rows;
  }

 private:
  Real shifted(Real x, int64_t d, RelativeSpec::Part bias) const {
    if (!has(bias)) return x;
    const Real shift = number(bias, 0, d);
    if (dtype_ == rapt::DType::f64)
      return static_cast<Real>(static_cast<double>(x) + static_cast<double>(shift));
    return rounded<Real>(dtype_, static_cast<float>(x) + static_cast<float>(shift));
  }

  rapt::DType dtype_ = rapt::DType::f32;
  std::array<std::vector<Real>, RelativeSpec::kParts> numbers_;  // dense
  std::array<int64_t, RelativeSpec::kParts> width_ = {};
};

}  // namespace check
