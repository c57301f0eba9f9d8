#pragma once
// The two 16-bit floating-point types. Both are only stored: arithmetic happens in float, to which
// every value converts exactly.
//
//   BFloat16  1 sign, 8 exponent, 7 fraction bits: the upper half of a float
//   Float16   1 sign, 5 exponent, 10 fraction bits: binary16 of IEEE 754; at most 65504
//
// Conversions from float and from double round once, to nearest, ties to even. A number that is too
// large becomes infinite, a small one denormal, and a NaN a quiet NaN with the same sign and
// leading payload bits.
//
// Both types are 2 bytes and trivial. So memory of another type with the same format, for example
// uint16_t, can be viewed as one of them: TensorView(reinterpret_cast<const BFloat16*>(p), {n, d}).
// Braces initialise the bits, not the number: BFloat16{1} is the smallest denormal number,
// BFloat16::from(1) is 1.
//
// Members are always inlined, and std::bit_cast is not used: both would leave weak copies in code
// that is compiled for one instruction set, which the linker could pick for every CPU.
#include <cstdint>

namespace rapt {
namespace detail {

// Converts a double to a float that rounds to the same 16 bits as the double. If bits are lost, the
// last bit is set ("round to odd"), so that no float is exactly in the middle of two 16-bit numbers
// unless the double is. This works because a float has at least two bits more than the 16-bit
// types, also where they are denormal (Boldo and Melquiond, "Emulation of FMA and correctly rounded
// sums", 2008).
[[gnu::always_inline]] constexpr float rounded_to_odd(double x) noexcept {
  const uint64_t u = __builtin_bit_cast(uint64_t, x), magnitude = u & 0x7FFFFFFFFFFFFFFF;
  uint64_t kept = magnitude != 0, lost = 0;  // below 2^-143, which every format rounds to 0
  if (magnitude > 0x7FF0000000000000) {
    kept = 0x7FC00000 | (magnitude >> 29 & 0x3FFFFF);
  } else if (magnitude >= 0x47F0000000000000) {  // 2^128
    kept = magnitude == 0x7FF0000000000000 ? 0x7F800000 : 0x7F7FFFFF;
  } else if (magnitude >= 0x3810000000000000) {  // 2^-126, the smallest normal float
    // 896 is the difference of the exponent biases, 1023 - 127.
    kept = (magnitude - (uint64_t{896} << 52)) >> 29;
    lost = magnitude & 0x1FFFFFFF;
  } else if (magnitude >= 0x3700000000000000) {  // 2^-143
    // Units of 2^-149; the significand of a double counts units of 2^(exponent - 1075).
    const uint64_t shift = 926 - (magnitude >> 52);
    const uint64_t significand = (magnitude & 0xFFFFFFFFFFFFF) | uint64_t{1} << 52;
    kept = significand >> shift;
    lost = significand & ((uint64_t{1} << shift) - 1);
  }
  return __builtin_bit_cast(float, static_cast<uint32_t>(u >> 63 << 31 | kept | (lost != 0)));
}

}  // namespace detail

struct BFloat16 {  // 8 bits of precision, the range of a float
  uint16_t bits;

  [[gnu::always_inline]] static constexpr BFloat16 from(float x) noexcept {
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    if ((u & 0x7FFFFFFF) > 0x7F800000) return {static_cast<uint16_t>(u >> 16 | 0x40)};
    return {static_cast<uint16_t>((u + 0x7FFF + (u >> 16 & 1)) >> 16)};
  }
  [[gnu::always_inline]] static constexpr BFloat16 from(double x) noexcept {
    return from(detail::rounded_to_odd(x));
  }
  [[gnu::always_inline]] static constexpr BFloat16 from(int x) noexcept {
    return from(static_cast<double>(x));
  }
  [[gnu::always_inline]] constexpr operator float() const noexcept {
    return __builtin_bit_cast(float, uint32_t{bits} << 16);
  }
};

struct Float16 {  // 11 bits of precision, up to 65504
  uint16_t bits;

  [[gnu::always_inline]] static constexpr Float16 from(float x) noexcept {
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    const uint32_t sign = u >> 16 & 0x8000, magnitude = u & 0x7FFFFFFF;
    uint32_t rounded = 0;  // below half of the smallest denormal number, 2^-25
    if (magnitude > 0x7F800000) {
      rounded = 0x7E00 | (magnitude >> 13 & 0x3FF);
    } else if (magnitude >= 0x477FF000) {  // 65520, which would round to 2^16
      rounded = 0x7C00;
    } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal number
      // 112 is the difference of the exponent biases, 127 - 15.
      rounded = shift_rounded(magnitude - (112u << 23), 13);
    } else if (magnitude >= 0x33000000) {  // 2^-25
      // Units of 2^-24; the significand of a float counts units of 2^(exponent - 150).
      rounded = shift_rounded((magnitude & 0x7FFFFF) | 0x800000, 126 - (magnitude >> 23));
    }
    return {static_cast<uint16_t>(sign | rounded)};
  }
  [[gnu::always_inline]] static constexpr Float16 from(double x) noexcept {
    return from(detail::rounded_to_odd(x));
  }
  [[gnu::always_inline]] static constexpr Float16 from(int x) noexcept {
    return from(static_cast<double>(x));
  }
  [[gnu::always_inline]] constexpr operator float() const noexcept {
    const uint32_t sign = uint32_t{bits} << 16 & 0x80000000, magnitude = bits & 0x7FFFu;
    uint32_t u = 0;
    if (magnitude >= 0x7C00)
      u = 0x7F800000 | (magnitude << 13 & 0x7FFFFF);
    else if (magnitude >= 0x400)
      u = (magnitude << 13) + (112u << 23);
    else  // zero and denormal numbers, in units of 2^-24; exact
      u = __builtin_bit_cast(uint32_t, static_cast<float>(magnitude) * 0x1p-24f);
    return __builtin_bit_cast(float, sign | u);
  }

 private:
  // u / 2^shift, rounded to nearest, ties to even.
  [[gnu::always_inline]] static constexpr uint32_t shift_rounded(uint32_t u,
                                                                 uint32_t shift) noexcept {
    return (u + ((1u << (shift - 1)) - 1) + (u >> shift & 1)) >> shift;
  }
};

}  // namespace rapt
