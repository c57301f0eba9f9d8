#pragma once
// Tile registers for machines without them: the instructions of simd/tiles.h raise SIGILL there,
// and a handler does what they do. So code that is compiled for AMX is tested everywhere, as it is.
//
// Written from the manual (Intel's Architecture Instruction Set Extensions Programming Reference,
// 319433, chapter 3), and shares nothing with the words' emulation: what compares the two learns
// something.

namespace rapt {

// For all threads, present and future, each with registers of its own; needs AVX2 and FMA. What is
// not one of those instructions, or what a CPU refuses too, goes to who had SIGILL before: mostly
// to the system, which ends the process. A CPU answers LDTILECFG of what is no configuration by
// #GP, a SIGSEGV; here it is SIGILL as well.
//
// Where the machine has AMX nothing traps, provided that the system was asked for it, as
// cpu_has("amx") does: STTILECFG works without, and would know nothing of what the trap did.
void install_tile_trap();

}  // namespace rapt
