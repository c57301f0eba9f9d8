#pragma once
// The largest error of a vector word over a range of arguments, in units in the last place (ulp) of
// the exact result. The exact result is the same function in a wider type.
//
// For float, every 997th number is tested; with RAPT_EVERY_FLOAT=1 in the environment every number
// is, which can take minutes. For double, kDoubles numbers are tested, spread evenly over the bits
// of the range and thus over magnitudes.
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <type_traits>

#include "kernels/words_shim.h"

namespace rapt {

inline constexpr uint64_t kFloatStep = 997;  // prime: no bit is always the same
inline constexpr uint64_t kDoubles = 2'000'000;

template <class E>
using Wide = std::conditional_t<std::is_same_v<E, float>, double, long double>;
template <class E>
using Bits = std::conditional_t<std::is_same_v<E, float>, uint32_t, uint64_t>;

// The range has one sign, |from| <= |to|. Prints the error, which is infinite if a result is NaN.
template <class E>
double worst_ulp(const char* name, typename VectorWords<E>::Function function,
                 Wide<E> (*exact)(Wide<E>), E from, E to) {
  constexpr int64_t kBatch = 4096;
  const uint64_t begin = std::bit_cast<Bits<E>>(from), last = std::bit_cast<Bits<E>>(to) - begin;
  const char* every = std::getenv("RAPT_EVERY_FLOAT");
  uint64_t step = every && *every == '1' ? 1 : kFloatStep;
  if (sizeof(E) == sizeof(double)) step = last / kDoubles | 1;
  Wide<E> worst = 0;
  E at = from, x[kBatch], y[kBatch];
  for (uint64_t i = 0; i <= last;) {
    for (E& one : x) {
      one = std::bit_cast<E>(static_cast<Bits<E>>(begin + (i < last ? i : last)));
      i += step;
    }
    function(x, y, kBatch);
    for (int64_t k = 0; k < kBatch; ++k) {
      const Wide<E> value = exact(x[k]);
      const Wide<E> ulp =
          std::ldexp(Wide<E>(1), std::ilogb(value) + 1 - std::numeric_limits<E>::digits);
      const Wide<E> error = value == y[k] ? 0 : std::fabs(y[k] - value) / ulp;
      if (error <= worst) continue;
      worst = std::isnan(error) ? std::numeric_limits<Wide<E>>::infinity() : error;
      at = x[k];
    }
  }
  std::printf("%s, %s: %.3f ulp, at %.17g\n", name, sizeof(E) == 4 ? "float" : "double",
              static_cast<double>(worst), static_cast<double>(at));
  return static_cast<double>(worst);
}

}  // namespace rapt
