#pragma once
// The words of tile registers, by the instructions of AMX (Intel's Architecture Instruction Set
// Extensions Programming Reference, 319433, chapter 3). A thread has eight registers of 16 rows of
// 64 bytes. Words name registers by numbers known at compile time.
//
// The order of these words and of stores to what they read is the order of the program: each says
// that it touches memory, which GCC 12's own intrinsics forget.
#include <cstdint>

#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

// How the registers of a thread are cut: the operand of LDTILECFG and STTILECFG. Rows of palette 0
// are those of a thread that uses no tiles.
struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileShapes) == 64);

// Sets up the registers of the thread; `before` takes what they were.
RAPT_INLINE void shape_tiles(TileShapes& before) noexcept {
  constexpr TileShapes kWhole;
  asm volatile("sttilecfg %0" : "=m"(before) : : "memory");
  asm volatile("ldtilecfg %0" : : "m"(kWhole) : "memory");
}
RAPT_INLINE void restore_tiles(const TileShapes& before) noexcept {
  if (before.palette == 0)
    asm volatile("tilerelease" : : : "memory");
  else
    asm volatile("ldtilecfg %0" : : "m"(before) : "memory");
}

template <int T>
RAPT_INLINE void tile_zero() noexcept {
  asm volatile("tilezero %%tmm%c0" : : "i"(T) : "memory");
}
// Rows lie `stride` bytes apart.
template <int T>
RAPT_INLINE void tile_load(const void* rows, int64_t stride) noexcept {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(T) : "memory");
}
// The same of what is not soon read again: it passes by the L1 cache.
template <int T>
RAPT_INLINE void tile_stream(const void* rows, int64_t stride) noexcept {
  asm volatile("tileloaddt1 (%0,%1,1), %%tmm%c2" : : "r"(rows), "r"(stride), "i"(T) : "memory");
}
template <int T>
RAPT_INLINE void tile_store(void* rows, int64_t stride) noexcept {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(rows), "r"(stride), "i"(T) : "memory");
}
// C [16][16] f32 += A [16][32] B, bf16; B [16][16][2]: its rows 2 k and 2 k + 1 lie in pairs. Takes
// denormal numbers for 0, as a result too.
template <int C, int A, int B>
RAPT_INLINE void tile_multiply() noexcept {
  static_assert(C != A && C != B && A != B);
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(C), "i"(A), "i"(B) : "memory");
}

}  // namespace
}  // namespace rapt::RAPT_ISA
