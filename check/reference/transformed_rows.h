#pragma once
// Row transforms of query or key (row_spec.h), and the gradients of such rows. Cosine attention
// divides a row x by its length:
//
//   y = x / max(|x|, epsilon)         dx = (dy - y (y . dy)) / |x|, or dy / epsilon if |x| is at
//                                     most epsilon
//
// Then rotary embedding turns every pair (a, b) of dimensions of a row at position m:
//
//   (x_a, x_b) -> magnitude (x_a cos m f_i - x_b sin m f_i, x_b cos m f_i + x_a sin m f_i)
//   f_i = theta^(-2 i / dims)         gradients turn by the opposite angle, times the magnitude
//
// The result is rounded once to the tensor's dtype (16 bits: from f32), even where the rest is
// exact: this rounding is part of the call's definition. Gradients are rounded at the end.
// A gradient of 0 stays 0, whatever its row holds.
// Sources: Su et al. 2021, arXiv:2104.09864; Henry et al. 2020, arXiv:2010.04245.
//
// Errors, in units of the e of the arithmetic's dtype (dual_numbers.h). A running error analysis
// computes them, except for:
//   sums over head_dim in any order, as in tolerance.h: (1/2 + sqrt(head_dim) / 4) of their terms.
//     A length is the root of such a sum: it has half the relative error, and one rounding more;
//   angles, which are computed in f64 with roundings of u. The exponent of f_i changes f_i by
//     |ln f_i| u, relative, and its power by 2 u; m f_i rounds once. So the error of an angle is
//     (|ln f_i| + 3) u |angle|, and 0 for f_0 = 1. A scaling (whenever there is a magnitude) rounds
//     f_i three times more. A position is a sum of at most seven parts, six bits and a rest; the
//     parts' cosines and sines are rounded (u) and multiplied (2 u): 8 u in quadrature. f32 rounds
//     the results once more.
// A 16-bit element x that has an error err before it is rounded can become any number between the
// roundings of x - err and x + err, which usually are the same number. Such a jump may happen in
// the plain loop and in the kernel, so it counts twice (e contains two roundings already). Its
// effect on scores: reference.cpp. A row whose length equals epsilon within its error may have
// either gradient.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "check/reference/sum_of_products.h"
#include "check/spec/dual_numbers.h"
#include "check/spec/row_spec.h"
#include "check/tensors/reference_matrix.h"

namespace check {

// The transform of the rows of one tensor, query or key.
template <class Real>
class RowTransform {
 public:
  // `turns`: the positions of the rows for the rotation; null: no rotation. `place`: the position
  // of row i in its sequence; empty: i.
  RowTransform(const RowSpec& spec, const CountedRows* turns, rapt::DType dtype, int64_t head_dim,
               int64_t rows, const std::function<int64_t(int64_t)>& place)
      : cosine_(spec.cosine), dtype_(dtype), head_dim_(static_cast<size_t>(head_dim)) {
    e_ = dtype == rapt::DType::f64 ? std::numeric_limits<double>::epsilon()
                                   : double{std::numeric_limits<float>::epsilon()};
    sum_ = 0.5 + std::sqrt(static_cast<double>(head_dim)) / 4;
    if (turns) take_turns(*spec.rotary, *turns, rows, place);
  }

  // Transforms row i; `errors` gets its error bounds, in units of e.
  void change(int64_t i, Real* row, double* errors) const {
    std::vector<Number> x(row, row + head_dim_);
    if (cosine_) {
      const Number by = divisor(row).by;
      for (Number& element : x) element = element / by;
    }
    turn(i, x, 1);
    for (size_t d = 0; d < head_dim_; ++d) {
      row[d] = rounded(dtype_, x[d].value);
      errors[d] = x[d].value_error;
      if (rapt::size_of(dtype_) != 2) continue;
      const auto off = static_cast<Real>(errors[d] * e_);
      errors[d] =
          2 * size(rounded(dtype_, x[d].value + off) - rounded(dtype_, x[d].value - off)) / e_;
    }
  }

  // Turns the gradient of transformed row i into that of the original row `given`; `errors` in the
  // same way.
  void transform_back(int64_t i, const Real* given, Real* gradient, double* errors) const {
    std::vector<Number> g;
    for (size_t d = 0; d < head_dim_; ++d) g.emplace_back(gradient[d], 0, errors[d], 0);
    turn(i, g, -1);
    if (cosine_ && !stays_zero(given, g)) divide_back(given, g);
    for (size_t d = 0; d < head_dim_; ++d) gradient[d] = g[d].value, errors[d] = g[d].value_error;
  }

 private:
  using Number = Dual<Real>;
  // Of angles.
  using Wide = std::conditional_t<std::is_same_v<Real, float>, double, Real>;

  struct Pair {
    size_t a, b;
    Wide frequency;
  };

  void take_turns(const RotarySpec& rotary, const CountedRows& rows, int64_t count,
                  const std::function<int64_t(int64_t)>& place) {
    const size_t dims = rotary.dims > 0 ? static_cast<size_t>(rotary.dims) : head_dim_;
    const size_t half = dims / 2;
    magnitude_ = rotary.magnitude;
    for (size_t i = 0; i < half; ++i) {
      const Wide power = -2 * static_cast<Wide>(i) / static_cast<Wide>(dims);
      const Wide f = std::pow(static_cast<Wide>(rotary.theta), power);
      pairs_.push_back(rotary.interleaved ? Pair{2 * i, 2 * i + 1, f} : Pair{i, i + half, f});
    }
    for (int64_t i = 0; i < count; ++i) {
      positions_.push_back(rows.start + rows.step * (place ? place(i) : i));
      for (const Pair& pair : pairs_) {
        const Wide angle = static_cast<Wide>(positions_.back()) * pair.frequency;
        const auto magnitude = static_cast<Wide>(magnitude_);
        turns_.emplace_back(static_cast<Real>(magnitude * std::cos(angle)),
                            static_cast<Real>(magnitude * std::sin(angle)));
      }
    }
  }

  // `x`, a cosine or sine of row i's angle, with its error.
  Number with_error(Real x, int64_t i, const Pair& pair) const {
    const auto f = static_cast<double>(pair.frequency);
    const double angle = std::abs(static_cast<double>(positions_[static_cast<size_t>(i)])) * f;
    const double of_frequency = f == 1 ? 0 : std::abs(std::log(f)) + 3,
                 of_scaling = magnitude_ == 1 ? 0 : 3;
    const double in_f64 = 0x1p-53 * ((of_frequency + of_scaling) * angle + 8) * magnitude_;
    return {x, 0, in_f64 / e_ + (dtype_ == rapt::DType::f64 ? 0 : size(x)), 0};
  }

  void turn(int64_t i, std::vector<Number>& x, Real sign) const {
    for (size_t p = 0; p < pairs_.size(); ++p) {
      const auto& [cos, sin] = turns_[static_cast<size_t>(i) * pairs_.size() + p];
      const Number c = with_error(cos, i, pairs_[p]), s = with_error(sign * sin, i, pairs_[p]);
      const Number a = x[pairs_[p].a], b = x[pairs_[p].b];
      x[pairs_[p].a] = a * c - b * s;
      x[pairs_[p].b] = b * c + a * s;
    }
  }

  // max(|x|, epsilon), and whether it is epsilon.
  struct Divisor {
    Number by;
    bool is_length, may_be_other;
  };
  Divisor divisor(const Real* x) const {
    // Elements are scaled to about 1, so that their squares fit f32.
    Real most = 0;
    for (size_t d = 0; d < head_dim_; ++d) most = std::max(most, std::abs(x[d]));
    const int exponent = most > 0 && std::isfinite(most) ? std::ilogb(most) : 0;
    Dot<Real> squares;
    for (size_t d = 0; d < head_dim_; ++d) {
      const Real scaled = std::scalbn(x[d], -exponent);
      squares.add(scaled, scaled);
    }
    const Real length = std::scalbn(std::sqrt(squares.sum), exponent);
    double length_error = 0;
    if (squares.sum > 0)
      length_error = (sum_ * size(squares.terms()) / size(squares.sum) / 2 + 1) * size(length);
    const auto least = of_double<Number>(*cosine_);
    const double error = std::max(length_error, least.value_error);
    return {{std::max(length, least.value), 0, error, 0},
            length > least.value,
            size(length - least.value) <= e_ * (length_error + least.value_error)};
  }

  // Whether it is the gradient of a row that no query attends to, which is 0 whatever its elements.
  bool stays_zero(const Real* given, const std::vector<Number>& g) const {
    bool finite = true, zero = true;
    for (size_t d = 0; d < head_dim_; ++d) {
      finite = finite && std::isfinite(given[d]);
      zero = zero && g[d].value == 0;
    }
    return zero && !finite;
  }

  void divide_back(const Real* given, std::vector<Number>& g) const {
    const Divisor divided = divisor(given);
    std::vector<Number> y(given, given + head_dim_);
    Dot<Real> along;
    double along_error = 0;
    for (size_t d = 0; d < head_dim_; ++d) {
      y[d] = y[d] / divided.by;
      along.add(y[d].value, g[d].value);
      along_error += y[d].value_error * size(g[d].value) + size(y[d].value) * g[d].value_error;
    }
    const Number lost(along.sum, 0, along_error + sum_ * size(along.terms()), 0);
    for (size_t d = 0; d < head_dim_; ++d) {
      const Number of_row = y[d] * lost;
      g[d] = (divided.is_length ? g[d] - of_row : g[d]) / divided.by;
      if (divided.may_be_other) g[d].value_error += size(of_row.value / divided.by.value) / e_;
    }
  }

  std::optional<double> cosine_;  // epsilon
  rapt::DType dtype_ = rapt::DType::f32;
  size_t head_dim_ = 0;
  double e_ = 0, sum_ = 0, magnitude_ = 1;
  std::vector<Pair> pairs_;                   // empty: no rotation
  std::vector<int64_t> positions_;            // [rows]
  std::vector<std::pair<Real, Real>> turns_;  // [rows, pairs]: cosine and sine, times the magnitude
};

// The error of a product of two rows, from the errors of the rows; in units of e.
template <class Real>
double error_of_product(const Real* a, const double* a_error, const Real* b, const double* b_error,
                        int64_t dims) {
  double error = 0;
  for (int64_t d = 0; d < dims; ++d) error += a_error[d] * size(b[d]) + size(a[d]) * b_error[d];
  return error;
}

}  // namespace check
