#pragma once
// The words of tile registers (specified in simd/tiles.h) in plain C++, for machines without them:
// kernels made of these words are tested everywhere.
//
// A product sums as the manual says of TDPBF16PS: the products of even and of odd indices are
// summed on their own, each addition fused and rounded to nearest; the two sums are added, then
// that to C. Denormal numbers are 0, before and after.
#include <cstdint>

#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

struct EmulatedTile {
  uint32_t rows[16][16];
};
// What a thread has. As by LDTILECFG and TILERELEASE, registers are 0 after each change of shapes.
struct EmulatedTiles {
  EmulatedTile tiles[8];
  bool shaped;
};
thread_local EmulatedTiles emulated;

// Has the thread shapes?
struct TileShapes {
  bool shaped = false;
};
RAPT_INLINE void shape_tiles(TileShapes& before) noexcept {
  before.shaped = emulated.shaped;
  __builtin_memset(&emulated, 0, sizeof emulated);
  emulated.shaped = true;
}
RAPT_INLINE void restore_tiles(const TileShapes& before) noexcept {
  __builtin_memset(&emulated, 0, sizeof emulated);
  emulated.shaped = before.shaped;
}

// An instruction is illegal in a thread without shapes, and so is a word here: code that forgets to
// set shapes fails everywhere.
template <int T>
RAPT_INLINE EmulatedTile& emulated_tile() noexcept {
  if (!emulated.shaped) __builtin_trap();
  return emulated.tiles[T];
}

template <int T>
RAPT_INLINE void tile_zero() noexcept {
  __builtin_memset(&emulated_tile<T>(), 0, sizeof(EmulatedTile));
}
inline RAPT_NOINLINE void fill_tile(EmulatedTile& tile, const void* rows, int64_t stride) noexcept {
  for (int r = 0; r < 16; ++r)
    __builtin_memcpy(tile.rows[r], static_cast<const char*>(rows) + r * stride, 64);
}
inline RAPT_NOINLINE void write_tile(const EmulatedTile& tile, void* rows,
                                     int64_t stride) noexcept {
  for (int r = 0; r < 16; ++r)
    __builtin_memcpy(static_cast<char*>(rows) + r * stride, tile.rows[r], 64);
}
template <int T>
RAPT_INLINE void tile_load(const void* rows, int64_t stride) noexcept {
  fill_tile(emulated_tile<T>(), rows, stride);
}
template <int T>
RAPT_INLINE void tile_stream(const void* rows, int64_t stride) noexcept {
  tile_load<T>(rows, stride);
}
template <int T>
RAPT_INLINE void tile_store(void* rows, int64_t stride) noexcept {
  write_tile(emulated_tile<T>(), rows, stride);
}

// The number of these bits, 0 if it is denormal.
RAPT_INLINE float normal_of(uint32_t bits) noexcept {
  if ((bits & 0x7F800000) == 0) bits &= 0x80000000;
  float x;
  __builtin_memcpy(&x, &bits, sizeof x);
  return x;
}
RAPT_INLINE float normal_of(float x) noexcept {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, sizeof x);
  return normal_of(bits);
}

// a b + c, 0 if that is denormal: less than the least normal number after it is rounded to the 24
// bits that the CPU rounds to first. They are seen on 2^24 times as much; where that overflows, a b
// or c is far too large.
RAPT_INLINE float normal_fma(float a, float b, float c) noexcept {
  const float sum = __builtin_fmaf(a, b, c);
  const float larger = __builtin_fmaf(a * 0x1p24f, b, c * 0x1p24f);
  return __builtin_fabsf(larger) < 0x1p-102f ? __builtin_copysignf(0, sum) : sum;
}

// Are all numbers 0 or at least 2^-50? Then their products are multiples of 2^-114, and no sum of
// such is denormal.
RAPT_INLINE bool are_large(const EmulatedTile& tile) noexcept {
  constexpr uint32_t kLeast = (127 - 50) << 7;
  const auto is_small = [](uint32_t half) {
    return static_cast<uint32_t>((half & 0x7FFF) - 1 < kLeast - 1);
  };
  uint32_t some = 0;
  for (int r = 0; r < 16; ++r)
    for (int n = 0; n < 16; ++n)
      some |= is_small(tile.rows[r][n]) | is_small(tile.rows[r][n] >> 16);
  return some == 0;
}

// The sums of even and of odd products of some rows, which do not wait for each other.
template <int Rows, bool kFlush>
RAPT_INLINE void sum_products(const uint32_t (*a)[16], const float (&even_b)[16][16],
                              const float (&odd_b)[16][16], float (&even)[Rows][16],
                              float (&odd)[Rows][16]) noexcept {
  const auto next = [](float x, float y, float sum) {
    return kFlush ? normal_fma(x, y, sum) : __builtin_fmaf(x, y, sum);
  };
  for (int k = 0; k < 16; ++k)
    UNROLL_FOR (int m = 0; m < Rows; ++m) {
      const float even_a = normal_of(a[m][k] << 16), odd_a = normal_of(a[m][k] & 0xFFFF0000);
      for (int n = 0; n < 16; ++n) even[m][n] = next(even_a, even_b[k][n], even[m][n]);
      for (int n = 0; n < 16; ++n) odd[m][n] = next(odd_a, odd_b[k][n], odd[m][n]);
    }
}

RAPT_NOINLINE void emulate_product(EmulatedTile& c, const EmulatedTile& a,
                                   const EmulatedTile& b) noexcept {
  constexpr int kRows = 4;
  const bool large = are_large(a) && are_large(b);
  float even_b[16][16], odd_b[16][16];
  for (int k = 0; k < 16; ++k)
    for (int n = 0; n < 16; ++n) {
      even_b[k][n] = normal_of(b.rows[k][n] << 16);
      odd_b[k][n] = normal_of(b.rows[k][n] & 0xFFFF0000);
    }
  for (int first = 0; first < 16; first += kRows) {
    float even[kRows][16] = {}, odd[kRows][16] = {};
    if (large)
      sum_products<kRows, false>(a.rows + first, even_b, odd_b, even, odd);
    else
      sum_products<kRows, true>(a.rows + first, even_b, odd_b, even, odd);
    for (int m = 0; m < kRows; ++m)
      for (int n = 0; n < 16; ++n) {
        const float sum = normal_of(even[m][n] + odd[m][n]);
        const float whole = normal_of(normal_of(c.rows[first + m][n]) + sum);
        __builtin_memcpy(&c.rows[first + m][n], &whole, sizeof whole);
      }
  }
}

template <int C, int A, int B>
RAPT_INLINE void tile_multiply() noexcept {
  static_assert(C != A && C != B && A != B);
  emulate_product(emulated_tile<C>(), emulated_tile<A>(), emulated_tile<B>());
}

}  // namespace
}  // namespace rapt::RAPT_ISA
