#pragma once
// The error bounds of the gradients of tables for relative positions. They follow from the errors
// of dZ and of weights in gradient_tolerance.h.
#include "check/reference/backward_reference.h"
#include "check/tolerance/dual_numbers.h"

namespace check {

template <class Wide>
class RelativeFloors {
 public:
  RelativeFloors(const RelativeSpec& spec, const Sizes& sizes) : spec_(spec), sizes_(sizes) {
    for (size_t part = 0; part < RelativeSpec::kParts; ++part) {
      if (!spec.tables[part].there) continue;
      const rapt::TensorView rows = spec.as_rows(part);
      squares[part].assign(static_cast<size_t>(rows.count()), 0);
      linear_[part].assign(static_cast<size_t>(rows.shape[rows.rank - 2] * width(part)), 0);
    }
  }

  void enter(int64_t head) { places_ = relative_places_of(spec_, head, sizes_); }

  // Adds the errors of a pair of the row, from the errors of dZ and of the weight that multiplies
  // d_output, roundings of products included.
  void add_pair(const GradientRow<Wide>& g, const Pair<Wide>& pair, double dz_error,
                double kept_error) {
    const HeadInputs<Wide>& inputs = *g.forward->inputs;
    const RelativeRows<Wide>& tables = inputs.relative;
    const int64_t r = pair.table_row;
    const Wide *query = inputs.query_row(g.forward->index), *key = inputs.key_row(pair.key);
    for (int64_t d = 0; d < sizes_.head_dim; ++d) {
      const double of_key = dz_error * size(key[d]);
      add(RelativeSpec::queries, r, d, of_key);
      add(RelativeSpec::content, 0, d, of_key);
      add(RelativeSpec::position, 0, d, dz_error * size(tables.number(RelativeSpec::keys, r, d)));
      add(RelativeSpec::keys, r, d, dz_error * size(tables.query_of_rows(query, d)));
    }
    for (int64_t c = 0; c < sizes_.value_dim; ++c)
      add(RelativeSpec::values, r, c, kept_error * size(g.d_output[static_cast<size_t>(c)]));
  }

  // Called after all pairs of a query have been added.
  void end_row() {
    for (size_t part = 0; part < RelativeSpec::kParts; ++part)
      for (size_t at = 0; at < linear_[part].size(); ++at) {
        const auto i = static_cast<int64_t>(at);
        const long double error = std::exchange(linear_[part][at], 0);
        squares[part][places_[part](i / width(part), i % width(part))] += error * error;
      }
  }

  std::array<std::vector<long double>, RelativeSpec::kParts> squares;  // as the tables

 private:
  int64_t width(size_t part) const {
    return part == RelativeSpec::values ? sizes_.value_dim : sizes_.head_dim;
  }
  size_t place(size_t part, int64_t row, int64_t d) const {
    return static_cast<size_t>(row * width(part) + d);
  }
  void add(RelativeSpec::Part part, int64_t row, int64_t d, double error) {
    if (spec_[part].there) linear_[part][place(part, row, d)] += error;
  }

  const RelativeSpec& spec_;
  const Sizes& sizes_;
  RelativePlaces places_;
  std::array<std::vector<double>, RelativeSpec::kParts> linear_;  // of the current query
};

}  // namespace check
