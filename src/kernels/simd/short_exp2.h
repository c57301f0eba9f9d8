#pragma once
// 2^x for files that define RAPT_WEIGHTS_OF_16_BITS. They round weights to bf16 before multiplying,
// which is 65,536 times as coarse, and products of bf16 leave little time for 2^x. With 32 powers
// in two registers,
//
//   2^x = 2^n 2^(k / 32) (1 + c1 f + c2 f^2)    x = n + k / 32 + f, |f| <= 1/64
//
// has three multiplications, where a polynomial alone (polynomials.h) has six. That counts where
// few ports multiply: on an Intel core, while its tiles are at work, a single one does. AMD Zen 5
// takes as long either way. Within 1.75 ulp; 2^f within 5.3e-8 (dev/minimax.py exp2_part 2).
#include "kernels/simd/scaled_exp2.h"

namespace rapt::RAPT_ISA {

// 2^(k / 32)
alignas(64) inline constexpr float kPowers[32] = {
    // clang-format off
    0x1.0p0f, 0x1.059b0ep0f, 0x1.0b5586p0f, 0x1.11301ep0f, 0x1.172b84p0f, 0x1.1d4874p0f,
    0x1.2387a6p0f, 0x1.29e9ep0f, 0x1.306fep0f, 0x1.371a74p0f, 0x1.3dea64p0f, 0x1.44e086p0f,
    0x1.4bfdaep0f, 0x1.5342b6p0f, 0x1.5ab07ep0f, 0x1.6247ecp0f, 0x1.6a09e6p0f, 0x1.71f75ep0f,
    0x1.7a1148p0f, 0x1.82589ap0f, 0x1.8ace54p0f, 0x1.93737cp0f, 0x1.9c4918p0f, 0x1.a5503cp0f,
    0x1.ae89fap0f, 0x1.b7f77p0f, 0x1.c199bep0f, 0x1.cb720ep0f, 0x1.d5818ep0f, 0x1.dfc974p0f,
    0x1.ea4afap0f, 0x1.f50766p0f,
    // clang-format on
};

// 2^x as mantissa * 2^floor(exponent).
struct PowerOf2 {
  F mantissa, exponent;
};

// A set has besides
//   look_up(table, index)    the elements that the lowest five bits of the lanes of `index` number
//   not_below(a, b)          true where a < b does not hold, so also where one of them is NaN
//   scale_or_zero(m, x, e)   scale(x, e) where m holds, 0 elsewhere
//
// f is exact, so x - f is n + k / 32: beside 1.5 * 2^18 its last bits are k, and `scale` takes the
// floor of it. 2^-inf is 0 and 2^0 is 1, as by scaled_exp2.h.
inline PowerOf2 power_of_2(F x) {
  const F f = nearest_fraction<5>(x), whole = sub(x, f);
  const F power = look_up(kPowers, add(whole, F::set(0x1.8p18)));
  const F part = mul(f, fma(f, F::set(2.402318120e-01), F::set(6.931573749e-01)));
  return {fma(part, power, power), whole};
}
inline F exp2(F x) {
  const PowerOf2 p = power_of_2(x);
  return scale(p.mantissa, p.exponent);
}
// The same, but 0 below -126, where it would be denormal. Cores whose multipliers leave denormal
// results to microcode lose far more with one than a comparison takes: of 2,048 keys and a query,
// normal but ten times as large, every 250th weight is one. AMD Zen 5 is not among them, and its
// dot products (dot_bf16.cpp) do without: they would be 1 % slower.
inline F normal_exp2(F x) {
  const PowerOf2 p = power_of_2(x);
  return scale_or_zero(not_below(x, F::set(-126)), p.mantissa, p.exponent);
}

}  // namespace rapt::RAPT_ISA
