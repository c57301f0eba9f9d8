#pragma once
// The instruction sets of this build and this machine, and which of them is used.
#include <string>
#include <vector>

namespace rapt {

struct InstructionSet {  // one of this build
  const char* name;      // "scalar", "avx2", "avx512", "amx": as in RAPT_ISA
  bool available;        // CPU and operating system support it
  bool chosen;           // f32 kernels use it: the highest available that RAPT_ISA allows
  // A remark: that a set exists for tests, or why the operating system disables one that the CPU
  // has; empty: none.
  const char* note;
};

// All sets of this build, slowest first. RAPT_ISA in the environment names the highest set that may
// be used. Throws Error(unknown_name, unsupported) if RAPT_ISA names no set, or one that cannot run
// here.
std::vector<InstructionSet> instruction_sets();

// The 16-bit dot product of the CPU (AVX512_BF16): two products per lane and instruction. It is
// used for bf16 if it is faster than FMA on widened numbers, which is measured once per process
// (about 0.1 ms). RAPT_BF16=dot or RAPT_BF16=fma in the environment decides instead.
struct Bf16Dot {
  bool available = false;  // CPU and system have it, and the chosen instruction set supports it
  bool used = false;       // by Precision::automatic
  bool forced = false;     // RAPT_BF16 decided
  double speed = 0;        // its operations per second over those of FMA; 0: not available
};
// Throws Error(unknown_name, unsupported) if RAPT_BF16 is another word, or dot and not available.
const Bf16Dot& bf16_dot();

// The rate of the 16-bit dot product on one thread; a multiplication and an addition count as two
// operations. 0: not available.
double measure_bf16_dot_gflops(double seconds = 0.1);

// The rate of the chosen set's tile registers on one thread, for products of bf16; a multiplication
// and an addition count as two operations. 0: the set has none.
double measure_tile_gflops(double seconds = 0.1);

// The rate of f32 fused multiply-adds on one thread with the chosen instruction set; each counts as
// two operations. It is the best of many loops of about 0.1 ms, at least one, within `seconds` of
// CPU time. Touches no memory, so it does not empty the caches between two measurements.
double measure_fma_gflops(double seconds = 0.1);

struct MachinePeak {     // the peak rates of one thread of this machine
  double fma_gflops;     // measure_fma_gflops
  double clock_ghz;      // core clock right after that measurement; 0: cannot be measured here
  double read_gb_per_s;  // from DRAM, one thread
};

// Measures for about `seconds`, half of them for each rate; allocates 128 to 256 MiB meanwhile.
MachinePeak measure_peak(double seconds = 0.2);

struct CacheSizes {      // of this machine
  long l1_data, l2, l3;  // bytes; 0: unknown
};
CacheSizes cache_sizes();  // as the operating system reports them

}  // namespace rapt
