#pragma once
// A sum of products with how large its terms are, to which its rounding is proportional.
#include <cmath>

namespace check {

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

}  // namespace check
