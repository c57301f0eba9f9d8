#pragma once
// The rounding errors of transformed rows and of their gradients (row_transform.h), in units of the
// e of the arithmetic's dtype (dual_numbers.h). A running error analysis computes them, except for:
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
// effect on scores: score_errors.h. A row whose length equals epsilon within its error may have
// either gradient.
#include "check/reference/row_transform.h"
#include "check/tolerance/dual_numbers.h"

namespace check {

// A sum of products, and the size of its terms, to which its rounding error is proportional.
template <class Real>
struct Dot {
  Real sum = 0, squares = 0;
  void add(Real a, Real b) {
    const Real product = a * b;
    sum += product;
    squares += product * product;
  }
  Real terms() const { return std::abs(sum) + std::sqrt(squares); }
};

template <class Real>
class RowErrors : RowTransform<Real> {
  using Base = RowTransform<Real>;
  using Number = Dual<Real>;

 public:
  explicit RowErrors(const Base& transform) : Base(transform) {
    e_ = this->dtype_ == rapt::DType::f64 ? std::numeric_limits<double>::epsilon()
                                          : double{std::numeric_limits<float>::epsilon()};
    sum_ = 0.5 + std::sqrt(static_cast<double>(this->head_dim_)) / 4;
  }

  // The errors of row i after its transform.
  void of_change(int64_t i, const Real* row, double* errors) const {
    std::vector<Number> x(row, row + this->head_dim_);
    if (this->cosine_) {
      const Number by = divisor(row).by;
      for (Number& element : x) element = element / by;
    }
    turn(i, x, 1);
    for (size_t d = 0; d < x.size(); ++d) {
      errors[d] = x[d].value_error;
      if (rapt::size_of(this->dtype_) != 2) continue;
      const auto off = static_cast<Real>(errors[d] * e_);
      errors[d] =
          2 *
          size(rounded(this->dtype_, x[d].value + off) - rounded(this->dtype_, x[d].value - off)) /
          e_;
    }
  }

  // Turns the errors of the gradient of transformed row i into those of the original row `given`.
  void of_transform_back(int64_t i, const Real* given, const Real* gradient, double* errors) const {
    std::vector<Number> g;
    for (size_t d = 0; d < this->head_dim_; ++d) g.emplace_back(gradient[d], 0, errors[d], 0);
    turn(i, g, -1);
    if (this->cosine_) divide_back(given, g);
    for (size_t d = 0; d < g.size(); ++d) errors[d] = g[d].value_error;
  }

 private:
  // `x`, a cosine or sine of row i's angle, with its error.
  Number with_error(Real x, int64_t i, const typename Base::Pair& pair) const {
    const auto f = static_cast<double>(pair.frequency);
    const double angle = std::abs(static_cast<double>(this->position_of(i))) * f;
    const double of_frequency = f == 1 ? 0 : std::abs(std::log(f)) + 3,
                 of_scaling = this->magnitude_ == 1 ? 0 : 3;
    const double in_f64 = 0x1p-53 * ((of_frequency + of_scaling) * angle + 8) * this->magnitude_;
    return {x, 0, in_f64 / e_ + (this->dtype_ == rapt::DType::f64 ? 0 : size(x)), 0};
  }

  void turn(int64_t i, std::vector<Number>& x, Real sign) const {
    for (const auto& pair : this->pairs_) {
      const auto [cos, sin] = this->turn_of(i, pair);
      const Number c = with_error(cos, i, pair), s = with_error(sign * sin, i, pair);
      const Number a = x[pair.a], b = x[pair.b];
      x[pair.a] = a * c - b * s;
      x[pair.b] = b * c + a * s;
    }
  }

  // max(|x|, epsilon), and whether it is epsilon.
  struct Divisor {
    Number by;
    bool is_length, may_be_other;
  };
  Divisor divisor(const Real* x) const {
    const int exponent = this->exponent_of(x);
    Dot<Real> squares;
    for (size_t d = 0; d < this->head_dim_; ++d) {
      const Real scaled = std::scalbn(x[d], -exponent);
      squares.add(scaled, scaled);
    }
    const Real length = this->length_of(x);
    double length_error = 0;
    if (squares.sum > 0)
      length_error = (sum_ * size(squares.terms()) / size(squares.sum) / 2 + 1) * size(length);
    const auto least = of_double<Number>(*this->cosine_);
    const double error = std::max(length_error, least.value_error);
    return {{std::max(length, least.value), 0, error, 0},
            length > least.value,
            size(length - least.value) <= e_ * (length_error + least.value_error)};
  }

  void divide_back(const Real* given, std::vector<Number>& g) const {
    std::vector<Real> values;
    for (const Number& x : g) values.push_back(x.value);
    if (this->stays_zero(given, values.data())) return;
    const Divisor divided = divisor(given);
    std::vector<Number> y(given, given + g.size());
    Dot<Real> along;
    double along_error = 0;
    for (size_t d = 0; d < g.size(); ++d) {
      y[d] = y[d] / divided.by;
      along.add(y[d].value, g[d].value);
      along_error += y[d].value_error * size(g[d].value) + size(y[d].value) * g[d].value_error;
    }
    const Number lost(along.sum, 0, along_error + sum_ * size(along.terms()), 0);
    for (size_t d = 0; d < g.size(); ++d) {
      const Number of_row = y[d] * lost;
      g[d] = (divided.is_length ? g[d] - of_row : g[d]) / divided.by;
      if (divided.may_be_other) g[d].value_error += size(of_row.value / divided.by.value) / e_;
    }
  }

  double e_ = 0, sum_ = 0;
};

}  // namespace check
