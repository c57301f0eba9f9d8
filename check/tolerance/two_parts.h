#pragma once
// The products that Precision::fast leaves out on sets with tile registers. There, f32 and f16
// numbers are split into two bf16 numbers and a rest, x = h + m + r. Of a product
//
//   x y = (h + m + r) (h' + m' + r')
//
// only h h' + h m' + m h' is computed. m m' + r y + x r' is left out (and r r', which is far below
// a rounding of f32). Its size follows from the 8 bits of bf16. With 2^E <= |x| < 2^(E + 1)
//   rows       h is rounded to nearest: |x - h| <= 2^-8 2^E. If it is less, the leading bit of
//              x - h is at most 2^(E - 9), so |m| <= 2^-8 |x|, |r| <= 2^-8 2^(E - 9) <= 2^-17 |x|.
//              f16 has 11 bits: 8 are in h and 3 in m, and r = 0
//   weights    h is truncated, |x - h| < 2^-7 2^E, and m is rounded to nearest: |m| <= 2^-7 |x|,
//              |r| <= 2^-16 |x|
//
// In a sum, the parts left out have independent signs and add up in quadrature. But a number that
// occurs in all terms, as with stride 0, has the same r in all of them; and its m' is multiplied by
// the truncation rests of the weights, none of which is negative. Then the parts left out are a
// fraction of the whole sum. Hence the error of a sum is at most a LeftOut member times
// |sum| + sqrt(sum of squares), to which other roundings are proportional, too (tolerance.h).
#include "check/reference/reference.h"

namespace check {

constexpr LeftOut left_out_of_two_parts(rapt::DType dtype) {
  constexpr double kMiddle = 0x1p-8, kCutMiddle = 0x1p-7, kCutRest = 0x1p-16;
  const double rest = dtype == rapt::DType::f16 ? 0 : 0x1p-17;
  return {kMiddle * kMiddle + 2 * rest, kCutMiddle * kMiddle + kCutRest + rest};
}

}  // namespace check
