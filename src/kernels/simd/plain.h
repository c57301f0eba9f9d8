#pragma once
// The words of vector code in plain C++, for any number of lanes: the specification of every word
// of the other instruction sets. F is a vector of floats, D of doubles, one number per query. M is
// a condition per lane of either. U is a vector of 64-bit integers, for random numbers
// (dropout.simd.h).
//
// A set includes this file after `Registers<E>`: kLanes, kRegisters, kMaxVectors (the widest
// register tile that pays, products.simd.h) and kLongVectors; and after RAPT_WORD, which begins
// every word: is it inlined? It adds fma, exp2 and log, then normal_cdf.h and tanh.h: the C
// library's tanh is off by more than 2 ulp, and it has no normal distribution.
//
// Special values and errors, on every set; a NaN stays NaN unless it says otherwise:
//   fma(a, b, c)   a * b + c; may round once or twice
//   max(a, b)      b when one of them is NaN
//   exp2           within 1 ulp down to the smallest normal number, below gradual underflow or 0;
//                  exp2(-inf) = 0; exact for integers down to the least normal exponent; x beyond
//                  the largest exponent is not allowed
//   log            natural; within 1 ulp, also of denormal numbers; log(1) = 0 exactly, log(0) =
//                  log(-0) = -inf, log(inf) = inf, NaN below 0
//   tanh           within 1.5 ulp, also near 0; odd: tanh(-x) = -tanh(x) and tanh(-0) = -0; at
//                  most 1
//   normal_cdf     float: within 1e-7; double: within 2 ulp for x >= -1 and 6 ulp below; both: at
//                  most 1, never negative; normal_cdf(0) = 0.5, normal_cdf(-inf) = 0 and
//                  normal_cdf(inf) = 1 exactly; its density within 5e-8 (float) or 3.5 ulp
//                  (double), 0 for inf and -inf; below the smallest normal number gradual
//                  underflow or 0
//   store_*16      of F; round to nearest, ties to even, as rapt/float16.h
#include <cstdint>

#include "kernels/inlining.h"
#include "rapt/float16.h"

namespace rapt::RAPT_ISA {

struct M {  // a condition per lane
  uint64_t bits;
};

template <class E>
struct Lanes : Registers<E> {
  using Element = E;
  using Registers<E>::kLanes;
  E v[kLanes];

  static RAPT_WORD Lanes load(const E* p) {
    return each([&](int64_t i) { return p[i]; });
  }
  // The first n elements, 0 beyond; never reads beyond.
  static RAPT_WORD Lanes load_first(const E* p, int64_t n) {
    return each([&](int64_t i) { return i < n ? p[i] : E(0); });
  }
  // The same from 16-bit numbers, of which every one is a float. For floats only.
  static RAPT_WORD Lanes load_bf16(const uint16_t* p) requires __is_same(E, float) {
    return each([&](int64_t i) { return BFloat16{p[i]}; });
  }
  // Pairs of bf16 as they are stored, one in a lane; lower_bf16() and upper_bf16() give their first
  // and second numbers.
  static RAPT_WORD Lanes load_pairs(const uint16_t* p) requires __is_same(E, float) {
    Lanes pairs;
    __builtin_memcpy(pairs.v, p, sizeof pairs.v);
    return pairs;
  }
  static RAPT_WORD Lanes load_f16(const uint16_t* p) requires __is_same(E, float) {
    return each([&](int64_t i) { return Float16{p[i]}; });
  }
  static RAPT_WORD Lanes load_first_bf16(const uint16_t* p, int64_t n) requires
      __is_same(E, float) {
    return each([&](int64_t i) { return i < n ? BFloat16{p[i]} : BFloat16{0}; });
  }
  static RAPT_WORD Lanes load_first_f16(const uint16_t* p, int64_t n) requires __is_same(E, float) {
    return each([&](int64_t i) { return i < n ? Float16{p[i]} : Float16{0}; });
  }
  static RAPT_WORD Lanes set(double x) { return splat(static_cast<E>(x)); }
  static RAPT_WORD Lanes splat(E x) {
    return each([&](int64_t) { return x; });
  }
  template <class Function>
  static RAPT_INLINE Lanes each(Function f) {
    Lanes r;
    for (int64_t i = 0; i < kLanes; ++i) r.v[i] = f(i);
    return r;
  }
};

using F = Lanes<float>;
using D = Lanes<double>;
using U = Lanes<uint64_t>;
static_assert(U::kLanes == D::kLanes);

template <class E>
RAPT_WORD void store(E* p, Lanes<E> a) {
  for (int64_t i = 0; i < a.kLanes; ++i) p[i] = a.v[i];
}

// The first n lanes; never writes beyond.
template <class E>
RAPT_WORD void store_first(E* p, Lanes<E> a, int64_t n) {
  for (int64_t i = 0; i < a.kLanes && i < n; ++i) p[i] = a.v[i];
}
// As BFloat16::from and Float16::from round.
RAPT_WORD void store_first_bf16(uint16_t* p, F a, int64_t n) {
  for (int64_t i = 0; i < a.kLanes && i < n; ++i) p[i] = BFloat16::from(a.v[i]).bits;
}
RAPT_WORD void store_first_f16(uint16_t* p, F a, int64_t n) {
  for (int64_t i = 0; i < a.kLanes && i < n; ++i) p[i] = Float16::from(a.v[i]).bits;
}
RAPT_WORD void store_bf16(uint16_t* p, F a) { store_first_bf16(p, a, a.kLanes); }
RAPT_WORD void store_f16(uint16_t* p, F a) { store_first_f16(p, a, a.kLanes); }

RAPT_WORD F bf16_of(F pairs, int shift) {
  return F::each([&](int64_t i) {
    return BFloat16{static_cast<uint16_t>(__builtin_bit_cast(uint32_t, pairs.v[i]) >> shift)};
  });
}
RAPT_WORD F lower_bf16(F pairs) { return bf16_of(pairs, 0); }
RAPT_WORD F upper_bf16(F pairs) { return bf16_of(pairs, 16); }

#define RAPT_EACH(expression) return Lanes<E>::each([&](int64_t i) -> E { return expression; })
template <class E>
RAPT_WORD Lanes<E> add(Lanes<E> a, Lanes<E> b) {
  RAPT_EACH(a.v[i] + b.v[i]);
}
template <class E>
RAPT_WORD Lanes<E> sub(Lanes<E> a, Lanes<E> b) {
  RAPT_EACH(a.v[i] - b.v[i]);
}
template <class E>
RAPT_WORD Lanes<E> mul(Lanes<E> a, Lanes<E> b) {
  RAPT_EACH(a.v[i] * b.v[i]);
}
template <class E>
RAPT_WORD Lanes<E> div(Lanes<E> a, Lanes<E> b) {
  RAPT_EACH(a.v[i] / b.v[i]);
}
template <class E>
RAPT_WORD Lanes<E> max(Lanes<E> a, Lanes<E> b) {
  RAPT_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]);
}
RAPT_WORD F abs(F a) {
  using E = float;
  RAPT_EACH(__builtin_fabsf(a.v[i]));
}
RAPT_WORD D abs(D a) {
  using E = double;
  RAPT_EACH(__builtin_fabs(a.v[i]));
}
RAPT_WORD F copy_sign(F magnitude, F sign) {
  using E = float;
  RAPT_EACH(__builtin_copysignf(magnitude.v[i], sign.v[i]));
}
RAPT_WORD D copy_sign(D magnitude, D sign) {
  using E = double;
  RAPT_EACH(__builtin_copysign(magnitude.v[i], sign.v[i]));
}

template <class E, class Function>
RAPT_WORD M where(Function f) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < Lanes<E>::kLanes; ++i) bits |= uint64_t{f(i)} << i;
  return {bits};
}
template <class E>
RAPT_WORD M equal(Lanes<E> a, Lanes<E> b) {
  return where<E>([&](int64_t i) { return a.v[i] == b.v[i]; });
}
// True where a <= b does not hold, so also where one of them is NaN.
template <class E>
RAPT_WORD M not_at_most(Lanes<E> a, Lanes<E> b) {
  return where<E>([&](int64_t i) { return !(a.v[i] <= b.v[i]); });
}
inline bool any(M m) { return m.bits != 0; }
inline uint64_t bits_of(M m) { return m.bits; }
// The lowest kLanes bits, one per lane; `select` ignores higher ones.
inline M mask_of(uint64_t bits) { return {bits}; }
template <class E>
RAPT_WORD Lanes<E> select(M m, Lanes<E> yes, Lanes<E> no) {
  RAPT_EACH((m.bits >> i) & 1 ? yes.v[i] : no.v[i]);
}
#undef RAPT_EACH
// The lanes whose bit is set, in order, to `to`, and the numbers of these lanes to `numbers_to`;
// returns how many. Reads kLanes of both and may write as many, whatever lies behind those chosen;
// the results may lie where the arguments do, or before.
template <class E>
RAPT_WORD int64_t compress(uint64_t bits, Lanes<E> a, const int32_t* numbers, E* to,
                           int32_t* numbers_to) {
  int32_t chosen[Lanes<E>::kLanes];
  Lanes<E> r = a;
  int64_t count = 0;
  for (int64_t i = 0; i < a.kLanes; ++i) {
    r.v[count] = a.v[i], chosen[count] = numbers[i];
    count += (bits >> i) & 1;
  }
  store(to, r);
  for (int64_t i = 0; i < a.kLanes; ++i) numbers_to[i] = i < count ? chosen[i] : 0;
  return count;
}

// The product, of 64 bits, of the lower halves; upper halves may hold anything.
RAPT_WORD U mul_halves(U a, U b) {
  return U::each([&](int64_t i) { return (a.v[i] & 0xFFFFFFFF) * (b.v[i] & 0xFFFFFFFF); });
}
// The upper halves, moved down.
RAPT_WORD U upper_half(U a) {
  return U::each([&](int64_t i) { return a.v[i] >> 32; });
}
RAPT_WORD U exclusive_or(U a, U b) {
  return U::each([&](int64_t i) { return a.v[i] ^ b.v[i]; });
}
RAPT_WORD U exclusive_or(U a, U b, U c) { return exclusive_or(a, exclusive_or(b, c)); }
// Is the lower half at least `bound`? Bit 2 i: that of lane i of `even`, bit 2 i + 1: of `odd`.
RAPT_WORD uint64_t at_least(U even, U odd, uint32_t bound) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < U::kLanes; ++i) {
    bits |= uint64_t{static_cast<uint32_t>(even.v[i]) >= bound} << (2 * i);
    bits |= uint64_t{static_cast<uint32_t>(odd.v[i]) >= bound} << (2 * i + 1);
  }
  return bits;
}

// Prefetches a cache line: to the L1, or to the L2 for a use in some microseconds.
inline void prefetch(const void* p) { __builtin_prefetch(p); }
inline void prefetch_far(const void* p) { __builtin_prefetch(p, 0, 2); }
// Reads a cache line that exists, so that hardware prefetchers see it.
inline void touch(const void* p) { (void)*static_cast<const volatile char*>(p); }
// Keeps x in a register where the compiler would reload it for every use.
template <class E>
inline void pin(Lanes<E>&) {}

// kLanes x kLanes transpose.
template <class E>
RAPT_INLINE void transpose(Lanes<E> (&r)[Lanes<E>::kLanes]) {
  for (int64_t i = 0; i < Lanes<E>::kLanes; ++i)
    for (int64_t j = 0; j < i; ++j) {
      const E x = r[i].v[j];
      r[i].v[j] = r[j].v[i];
      r[j].v[i] = x;
    }
}

}  // namespace rapt::RAPT_ISA
