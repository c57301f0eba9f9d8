#pragma once
// Numbers of the truth that carry a bound of the rounding error that a kernel makes of them, by a
// running error analysis (Wilkinson 1963, "Rounding errors in algebraic processes", chapter 1).
// Unlike dual_numbers.h these have no tangent, and sums of many terms have a bound of their own.
//
// Errors are in units of e, the distance from 1 to the next number of Narrow, in which kernels
// compute. An operation propagates the errors of its arguments and adds e/2 times its result. The
// additions of a sum round partial sums that depend on its order. Each adds e times the partial sum
// here, in quadrature: twice the largest rounding, for another order.
//
// An infinite error says that the number may be anything: a quotient by a sum whose error may be as
// large as the sum itself.
#include <initializer_list>
#include <limits>

#include "check/reference/feature_formulas.h"
#include "check/tolerance/tolerance.h"

namespace check {

template <class Narrow, class Wide>
struct Rounded {
  static constexpr double kEpsilon = std::numeric_limits<Narrow>::epsilon();

  Wide value = 0;
  double error = 0;

  Rounded() = default;
  Rounded(Wide v, double off = 0) : value(v), error(off) {}
  static Rounded of_double(double x) { return {static_cast<Wide>(x), std::abs(x) / 2}; }

  double size() const { return static_cast<double>(std::abs(value)); }
};

template <class Narrow, class Wide>
Wide value_of(const Rounded<Narrow, Wide>& a) {
  return a.value;
}

// A sum of errors, in which an infinite one wins over a NaN.
inline double total_error(std::initializer_list<double> errors) {
  double sum = 0;
  for (const double error : errors) {
    if (std::isinf(error)) return error;
    sum += error;
  }
  return sum;
}
// An error times a size: an infinite one stays.
inline double scaled_error(double error, double size) {
  return std::isinf(error) ? error : error * size;
}

template <class Narrow, class Wide>
Rounded<Narrow, Wide> operator+(const Rounded<Narrow, Wide>& a, const Rounded<Narrow, Wide>& b) {
  const Rounded<Narrow, Wide> sum(a.value + b.value);
  return {sum.value, total_error({a.error, b.error, sum.size() / 2})};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> operator-(const Rounded<Narrow, Wide>& a) {
  return {-a.value, a.error};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> operator-(const Rounded<Narrow, Wide>& a, const Rounded<Narrow, Wide>& b) {
  return a + -b;
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> operator*(const Rounded<Narrow, Wide>& a, const Rounded<Narrow, Wide>& b) {
  const Rounded<Narrow, Wide> product(a.value * b.value);
  return {product.value,
          total_error({scaled_error(a.error, b.size()), scaled_error(b.error, a.size()),
                       scaled_error(a.error, Rounded<Narrow, Wide>::kEpsilon * b.error),
                       product.size() / 2})};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> inverse(const Rounded<Narrow, Wide>& a) {
  const Rounded<Narrow, Wide> quotient(1 / a.value);
  const double off = Rounded<Narrow, Wide>::kEpsilon * a.error;
  if (a.size() <= 2 * off) return {quotient.value, std::numeric_limits<double>::infinity()};
  return {quotient.value, a.error / (a.size() * (a.size() - off)) + quotient.size() / 2};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> sqrt(const Rounded<Narrow, Wide>& a) {
  const Rounded<Narrow, Wide> root(std::sqrt(a.value));
  return {root.value, a.value == 0 ? 0 : a.error / (2 * root.size()) + root.size() / 2};
}
// 2^x has an error of one ulp; its argument is the product with a rounded constant.
template <class Narrow, class Wide>
Rounded<Narrow, Wide> exp(const Rounded<Narrow, Wide>& a) {
  const Rounded<Narrow, Wide> power(std::exp(a.value));
  return {power.value, scaled_error(total_error({a.error, a.size(), 2}), power.size())};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> log(const Rounded<Narrow, Wide>& a) {
  const Rounded<Narrow, Wide> result(std::log(a.value));
  if (a.size() <= 2 * Rounded<Narrow, Wide>::kEpsilon * a.error)
    return {result.value, std::numeric_limits<double>::infinity()};
  // A kernel takes the logarithms of the sum and of its power apart; both may be larger than lse.
  return {result.value,
          a.error / (a.size() - Rounded<Narrow, Wide>::kEpsilon * a.error) + 2 + 2 * result.size()};
}
// cos and sin have errors of one ulp of 1, beside those of their argument.
template <class Narrow, class Wide>
Rounded<Narrow, Wide> cos(const Rounded<Narrow, Wide>& a) {
  return {std::cos(a.value), total_error({a.error, a.size() / 2, 1})};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> sin(const Rounded<Narrow, Wide>& a) {
  return {std::sin(a.value), total_error({a.error, a.size() / 2, 1})};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> positive_part(const Rounded<Narrow, Wide>& a) {
  return a.value <= 0 ? Rounded<Narrow, Wide>() : a;
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> is_positive(const Rounded<Narrow, Wide>& a) {
  return Rounded<Narrow, Wide>(a.value <= 0 ? 0 : 1);
}
// A kernel computes exponents relative to the largest one of a token.
template <class Narrow, class Wide>
Rounded<Narrow, Wide> of_difference(const Rounded<Narrow, Wide>& exponent,
                                    const Rounded<Narrow, Wide>& largest) {
  return {exponent.value, total_error({exponent.error, 2 * largest.size()})};
}
template <class Narrow, class Wide>
Rounded<Narrow, Wide> stored(rapt::DType dtype, const Rounded<Narrow, Wide>& x) {
  const double rounding = unit_roundoff(dtype) * x.size() + smallest_denormal(dtype) / 2;
  return {x.value, total_error({x.error, rounding / Rounded<Narrow, Wide>::kEpsilon})};
}

template <class Narrow, class Wide>
class Sum<Rounded<Narrow, Wide>> {
 public:
  void add(const Rounded<Narrow, Wide>& term) {
    value_ += term.value;
    terms_ = total_error({terms_, term.error});
    const auto partial = static_cast<double>(value_);
    if (count_++ > 0) squares_ += partial * partial;
  }
  Rounded<Narrow, Wide> value() const {
    return {value_, total_error({terms_, std::sqrt(squares_)})};
  }

 private:
  Wide value_ = 0;
  double terms_ = 0, squares_ = 0;
  int64_t count_ = 0;
};

}  // namespace check
