#pragma once
// The vocabulary of simd/avx512.h in plain C++, for machines without AVX-512: vectors of 16 floats
// and 8 doubles, whose words give the same bits. So fma rounds once; without an instruction for it,
// it is a function of the C library. Meanings: simd/plain.h.
#include <cstdint>
#include <type_traits>

// A call costs less than what compilers make of 16 lanes at every place where a word stands: these
// sets are compiled for tests.
#define RAPT_WORD inline RAPT_NOINLINE

namespace rapt::RAPT_ISA {

// As in avx512.h and avx512_f64.h, so that sums are made in the same order.
template <class E>
struct Registers {
  static constexpr int64_t kLanes = 64 / sizeof(E);
  static constexpr int kRegisters = 32;
  static constexpr int kMaxVectors = sizeof(E) == sizeof(float) ? 4 : 3;
  static constexpr int kLongVectors = 3;
#if defined(RAPT_WEIGHTS_OF_16_BITS)
  static constexpr bool kWeightsOf16Bits = true;
#if defined(RAPT_NORMAL_WEIGHTS)
  static constexpr bool kNormalWeights = true;
#endif
#endif
};

}  // namespace rapt::RAPT_ISA

#include "kernels/simd/plain.h"

namespace rapt::RAPT_ISA {

RAPT_WORD F fma(F a, F b, F c) {
  return F::each([&](int64_t i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
RAPT_WORD D fma(D a, D b, D c) {
  return D::each([&](int64_t i) { return __builtin_fma(a.v[i], b.v[i], c.v[i]); });
}

// The numbers of IEEE 754 as bits.
template <class E>
struct Format {
  using Bits = std::conditional_t<sizeof(E) == sizeof(float), uint32_t, uint64_t>;
  static constexpr int kFraction = sizeof(E) == sizeof(float) ? 23 : 52;
  static constexpr int kBias = sizeof(E) == sizeof(float) ? 127 : 1023;
  static constexpr Bits kExponent1 = Bits{1} << kFraction;
  static Bits bits_of(E x) { return __builtin_bit_cast(Bits, x); }
  static E number_of(Bits bits) { return __builtin_bit_cast(E, bits); }
  static E power_of_2(int n) { return number_of(static_cast<Bits>(n + kBias) << kFraction); }
};
inline float nearest_whole(float x) { return __builtin_rintf(x); }
inline double nearest_whole(double x) { return __builtin_rint(x); }
inline float floor_of(float x) { return __builtin_floorf(x); }
inline double floor_of(double x) { return __builtin_floor(x); }

// Numbers from 2^23 (2^52) on are multiples of all these powers of 2.
template <int kBits, class E>
RAPT_WORD Lanes<E> nearest_fraction(Lanes<E> x) {
  constexpr E kOne = 1 << kBits, kWhole = Format<E>::kExponent1;
  return Lanes<E>::each([&](int64_t i) {
    const E fraction = x.v[i] - nearest_whole(x.v[i] * kOne) / kOne;
    return x.v[i] >= kWhole || x.v[i] <= -kWhole ? 0 : fraction;
  });
}
// By two multiplications, of which the first is exact where the result is not 0 or infinite.
// Exponents are cut where the results are.
template <class E>
RAPT_WORD Lanes<E> scale(Lanes<E> mantissa, Lanes<E> exponent) {
  constexpr E kLeast = 2 - 2 * Format<E>::kBias, kMost = 2 * Format<E>::kBias;
  return Lanes<E>::each([&](int64_t i) {
    const E whole = floor_of(exponent.v[i]);
    const E above = whole > kLeast ? whole : kLeast;  // a NaN goes; the mantissa has it, too
    const int n = static_cast<int>(above < kMost ? above : kMost), half = n >> 1;
    return mantissa.v[i] * Format<E>::power_of_2(half) * Format<E>::power_of_2(n - half);
  });
}
// Denormal numbers become normal by a factor, which is taken back from the exponent.
template <class E>
RAPT_WORD Lanes<E> split(Lanes<E> x, Lanes<E>& exponent) {
  using T = Format<E>;
  constexpr int kUp = T::kFraction + 1;
  return Lanes<E>::each([&](int64_t i) {
    const bool tiny = x.v[i] < T::number_of(T::kExponent1);
    const auto bits = T::bits_of(tiny ? x.v[i] * (E(T::kExponent1) * 2) : x.v[i]);
    exponent.v[i] = E(static_cast<int>(bits >> T::kFraction) - T::kBias - (tiny ? kUp : 0));
    return T::number_of((bits & (T::kExponent1 - 1)) | T::bits_of(1));
  });
}

#if defined(RAPT_WEIGHTS_OF_16_BITS)
RAPT_WORD M not_below(F a, F b) {
  return where<float>([&](int64_t i) { return !(a.v[i] < b.v[i]); });
}
RAPT_WORD F scale_or_zero(M these, F mantissa, F exponent) {
  return select(these, scale(mantissa, exponent), F::splat(0));
}
RAPT_WORD F look_up(const float (&table)[32], F index) {
  return F::each([&](int64_t i) { return table[Format<float>::bits_of(index.v[i]) % 32]; });
}
#endif

}  // namespace rapt::RAPT_ISA

#include "kernels/simd/log.h"
#include "kernels/simd/normal_cdf.h"
#include "kernels/simd/scaled_exp2.h"
#include "kernels/simd/tanh.h"
#if defined(RAPT_WEIGHTS_OF_16_BITS)
#include "kernels/simd/short_exp2.h"
#endif
