#pragma once
// What Precision::fast leaves out where tile registers multiply. f32 and f16 are sums of two bf16
// then, x = h + m + r, and of a product
//
//   x y = (h + m + r) (h' + m' + r')
//
// h h' + h m' + m h' is taken; m m' + r y + x r' is left out, and r r', far below a rounding of
// f32. How much that is follows from the 8 bits of bf16. With 2^E <= |x| < 2^(E + 1)
//   rows       h is rounded to nearest: |x - h| <= 2^-8 2^E. Where it is less, x - h begins at
//              2^(E - 9) or below, and so |m| <= 2^-8 |x|, |r| <= 2^-8 2^(E - 9) <= 2^-17 |x|.
//              f16 has 11 bits: behind the 8 of h there are 3, and r = 0
//   weights    h is cut, |x - h| < 2^-7 2^E, and m is rounded to nearest: |m| <= 2^-7 |x|,
//              |r| <= 2^-16 |x|
//
// In sums these are independent of each other, as their signs are those of bits that nothing
// orders, and add up in quadrature. But a number that stands in all terms, as those of stride 0 do,
// has the same r in all, and the same m' meets what cutting leaves of weights, which is never
// negative: that is a part of the whole sum. Hence a sum is off by at most that part of
// |sum| + sqrt(sum of squares), to which other roundings are proportional, too (tolerance.h).
#include "rapt/tensor.h"

namespace check {

// Relative to the product: of elements of two rows, and of a weight and an element.
struct LeftOut {
  double rows = 0, weights = 0;
};

constexpr LeftOut left_out_of_two_parts(rapt::DType dtype) {
  constexpr double kMiddle = 0x1p-8, kCutMiddle = 0x1p-7, kCutRest = 0x1p-16;
  const double rest = dtype == rapt::DType::f16 ? 0 : 0x1p-17;
  return {kMiddle * kMiddle + 2 * rest, kCutMiddle * kMiddle + kCutRest + rest};
}

}  // namespace check
