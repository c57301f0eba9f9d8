#pragma once
// A sum of products, and the size of its terms, to which its rounding error is proportional.
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
