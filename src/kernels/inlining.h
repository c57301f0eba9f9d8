#pragma once
// What is inlined and unrolled in kernels is said, not left to the compiler: one register tile
// spilled, or one array of vectors on the stack, costs more than all else there.
#define RAPT_NOINLINE __attribute__((noinline))
#define RAPT_INLINE inline __attribute__((always_inline))
#define UNROLL_FOR(...) _Pragma("GCC unroll 24") for (__VA_ARGS__)
