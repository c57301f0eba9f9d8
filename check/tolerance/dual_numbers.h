#pragma once
// Dual numbers (Wengert 1964, Comm. ACM 7, 463), which carry their tangent and a bound of their
// rounding error. No formula of a tangent or of an error is written by hand: the product rule and a
// running error analysis (Wilkinson 1963, "Rounding errors in algebraic processes", chapter 1)
// compute them. A formula that is a template over the type of its numbers is computed in Real or in
// Dual<Real>.
//
// Errors are in units of e, the distance from 1 to the next number of the dtype at work. That is
// two roundings: one of the loop, one of the different order of a kernel. Every operation adds up,
// for value and tangent, the propagated errors of its arguments, and e times its result.
#include <limits>

#include "check/reference/numbers.h"

namespace check {

// A number, its tangent, and the error bounds of both.
template <class Real>
struct Dual {
  Real value = 0, tangent = 0;
  double value_error = 0, tangent_error = 0;

  Dual() = default;
  Dual(Real v, Real t = 0) : value(v), tangent(t) {}
  // No error moves an infinite value, and no rounding.
  Dual(Real v, Real t, double ve, double te)
      : value(v), tangent(t), value_error(std::isinf(v) ? 0 : ve), tangent_error(te) {}

  // Exact, or rounded once.
  static Dual of_double(double x) {
    const bool exact = static_cast<double>(static_cast<float>(x)) == x;
    return {static_cast<Real>(x), 0, exact ? 0 : std::abs(x), 0};
  }
};

template <class Real>
Real value_of(const Dual<Real>& a) {
  return a.value;
}
template <class Real>
double size(Real x) {
  return static_cast<double>(std::abs(x));
}
template <class Real>
Dual<Real> operator+(const Dual<Real>& a, const Dual<Real>& b) {
  const Real v = a.value + b.value, t = a.tangent + b.tangent;
  return {v, t, a.value_error + b.value_error + size(v),
          a.tangent_error + b.tangent_error + size(t)};
}
template <class Real>
Dual<Real> operator-(const Dual<Real>& a) {
  return {-a.value, -a.tangent, a.value_error, a.tangent_error};
}
template <class Real>
Dual<Real> operator-(const Dual<Real>& a, const Dual<Real>& b) {
  return a + -b;
}
template <class Real>
Dual<Real> operator*(const Dual<Real>& a, const Dual<Real>& b) {
  const Real v = a.value * b.value, left = a.tangent * b.value, right = a.value * b.tangent;
  return {v, left + right, a.value_error * size(b.value) + b.value_error * size(a.value) + size(v),
          a.tangent_error * size(b.value) + b.value_error * size(a.tangent) +
              a.value_error * size(b.tangent) + b.tangent_error * size(a.value) + size(left) +
              size(right)};
}
// f(a) with its first two derivatives and the rounding of all three, relative.
template <class Real>
Dual<Real> function_of(const Dual<Real>& a, Real f, Real slope, Real bend, double roundings) {
  const Real t = slope * a.tangent;
  return {
      f, t, size(slope) * a.value_error + roundings * size(f),
      size(slope) * a.tangent_error + size(bend * a.tangent) * a.value_error + roundings * size(t)};
}
template <class Real>
Dual<Real> exp(const Dual<Real>& a) {
  const Real f = std::exp(a.value);
  Dual<Real> e = function_of(a, f, f, f, 2 + size(a.value));
  // A weight below the smallest normal number may be flushed to zero; negligible for f64.
  constexpr double tiny =
      double{std::numeric_limits<float>::min()} / double{std::numeric_limits<float>::epsilon()};
  e.value_error += tiny;
  e.tangent_error += tiny * size(a.tangent);
  return e;
}
template <class Real>
Dual<Real> log(const Dual<Real>& a) {
  return function_of(a, std::log(a.value), 1 / a.value, -1 / (a.value * a.value), 2);
}
template <class Real>
Dual<Real> log1p(const Dual<Real>& a) {
  const Real grown = 1 + a.value;
  return function_of(a, std::log1p(a.value), 1 / grown, -1 / (grown * grown), 3);
}
template <class Real>
Dual<Real> inverse(const Dual<Real>& a) {
  const Real f = 1 / a.value;
  return function_of(a, f, -f * f, 2 * f * f * f, 2);
}
// A kernel multiplies by the inverse, which has two roundings; the loop divides, with one.
template <class Real>
Dual<Real> operator/(const Dual<Real>& a, const Dual<Real>& b) {
  const Real v = a.value / b.value, left = a.tangent / b.value, right = v * b.tangent / b.value;
  const double by = size(b.value),
               ve = (a.value_error + size(v) * b.value_error) / by + 1.5 * size(v);
  return {v, left - right, ve,
          (a.tangent_error + ve * size(b.tangent) + size(v) * b.tangent_error +
           size(left - right) * b.value_error) /
                  by +
              1.5 * (size(left) + size(right))};
}
template <class Real>
Dual<Real> tanh(const Dual<Real>& a) {
  const Real f = std::tanh(a.value), slope = 1 - f * f;
  Dual<Real> y = function_of(a, f, slope, -2 * f * slope, 4);
  y.tangent_error += 4 * size(a.tangent);  // of 1 - f^2, which may cancel
  return y;
}

// max(a, 0) and its derivative, which near 0 may be 0 or 1. This code does not know the e of the
// dtype: the e of f32 decides whether `a` is near 0, and that of f64 how large an error of 1 is.
template <class Real>
bool may_change_sign(const Dual<Real>& a) {
  return size(a.value) < a.value_error * double{std::numeric_limits<float>::epsilon()};
}
template <class Real>
Dual<Real> positive_part(const Dual<Real>& a) {
  constexpr double one = 1 / std::numeric_limits<double>::epsilon();
  const bool may = may_change_sign(a), is = !(a.value <= 0);
  return {is ? a.value : Real(0), is ? a.tangent : Real(0), is || may ? a.value_error : 0,
          (is || may ? a.tangent_error : 0) + (may ? one * size(a.tangent) : 0)};
}
template <class Real>
Dual<Real> is_positive(const Dual<Real>& a) {
  constexpr double one = 1 / std::numeric_limits<double>::epsilon();
  return {a.value <= 0 ? Real(0) : Real(1), 0, may_change_sign(a) ? one : 0, 0};
}

// y = f(s) for an s without tangent, from the f of an exact s with the tangent 1. The error of s is
// propagated by the derivative of f, which gives less than a sum over all uses of s in f. At an
// infinite s, which has no error, the derivative may be NaN.
template <class Real>
Dual<Real> still(const Dual<Real>& y, const Dual<Real>& s) {
  const double of_s = s.value_error == 0 ? 0 : size(y.tangent) * s.value_error;
  return {y.value, 0, y.value_error + of_s, 0};
}

}  // namespace check
