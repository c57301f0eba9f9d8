#pragma once
// Tile registers for machines without them. There the instructions of simd/tiles.h raise SIGILL,
// and a handler executes them. So code compiled for AMX is tested unchanged on every machine.
//
// The trap follows the manual (Intel's Architecture Instruction Set Extensions Programming
// Reference, 319433, chapter 3) and shares no code with the emulated words. So a comparison of the
// two is a real test.

namespace rapt {

// Installs the handler for all threads, present and future; each thread has its own registers.
// Needs AVX2 and FMA. Other instructions, and those that a CPU rejects too, go to the previous
// SIGILL handler: usually the system's, which ends the process. For an invalid configuration
// LDTILECFG raises #GP (SIGSEGV) on a CPU; here it raises SIGILL.
//
// On a machine with AMX nothing traps once the process has asked the system for AMX, as
// cpu_has("amx") does. Without that request STTILECFG alone works and does not show the state of
// the trap.
void install_tile_trap();

}  // namespace rapt
