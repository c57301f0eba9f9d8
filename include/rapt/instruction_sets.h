#pragma once
// Which instruction sets this build and this machine have, and which one is used.
#include <string>
#include <vector>

namespace rapt {

struct InstructionSet {  // one of this build
  const char* name;      // "scalar", "avx2", "avx512", "amx": as in RAPT_ISA
  bool available;        // CPU and operating system support it
  bool chosen;           // f32 kernels use it: the highest available that RAPT_ISA allows
  // What else is to be said: that a set is there for tests; why the operating system refuses one
  // that the CPU has; empty: nothing.
  const char* note;
};

// Worst first. RAPT_ISA in the environment names the highest set that may be used.
// Throws Error(unknown_name, unsupported) if RAPT_ISA names no set or one that cannot run here.
std::vector<InstructionSet> instruction_sets();

// The 16-bit dot product of the CPU (AVX512_BF16): two products per lane and instruction. It is
// used for bf16 where it is faster than FMA on widened numbers, which is measured once per process
// (about 0.1 ms); RAPT_BF16=dot or fma in the environment decides instead.
struct Bf16Dot {
  bool available = false;  // CPU and system have it, and the chosen instruction set goes with it
  bool used = false;       // by Precision::automatic
  bool forced = false;     // RAPT_BF16 decided
  double speed = 0;        // its operations per second over those of FMA; 0: not available
};
// Throws Error(unknown_name, unsupported) for a RAPT_BF16 that is neither or cannot be had.
const Bf16Dot& bf16_dot();

// Its rate on one thread, a multiplication and an addition counted as two; 0: not available.
double measure_bf16_dot_gflops(double seconds = 0.1);

// The rate of the chosen set's tile registers on one thread, products of bf16, likewise; 0: it has
// none.
double measure_tile_gflops(double seconds = 0.1);

// f32 fused multiply-adds of one thread, counted as two operations, with the chosen instruction
// set: the best of many loops of about 0.1 ms within `seconds` of CPU time, at least one. Touches
// no memory, so that it can be asked between two measurements without emptying their caches.
double measure_fma_gflops(double seconds = 0.1);

struct MachinePeak {     // what one thread of this machine reaches
  double fma_gflops;     // measure_fma_gflops
  double clock_ghz;      // core clock right after that; 0: cannot be measured here
  double read_gb_per_s;  // from DRAM, one thread
};

// Measures for about `seconds`, half of them for each rate; allocates 128 to 256 MiB meanwhile.
MachinePeak measure_peak(double seconds = 0.2);

struct CacheSizes {      // of this machine
  long l1_data, l2, l3;  // bytes; 0: unknown
};
CacheSizes cache_sizes();  // as the system tells them

}  // namespace rapt
