#pragma once
// Kernels state what is inlined and unrolled instead of leaving it to the compiler: one spilled
// register tile, or one array of vectors on the stack, costs more than everything else.
#define RAPT_NOINLINE __attribute__((noinline))
#define RAPT_INLINE inline __attribute__((always_inline))
#define UNROLL_FOR(...) _Pragma("GCC unroll 24") for (__VA_ARGS__)
