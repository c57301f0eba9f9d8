#pragma once
// Which instruction sets this build and this machine have, and which one is used.
#include <string>
#include <vector>

namespace rapt {

struct InstructionSet {
  const char* name;  // "scalar", "avx2", "avx512": as in RAPT_ISA
  bool available;    // CPU and operating system support it
  bool chosen;       // f32 kernels use it: the highest available that RAPT_ISA allows
};

// Worst first. RAPT_ISA in the environment names the highest set that may be used.
// Throws Error(unknown_name, unsupported) if RAPT_ISA names no set or one that cannot run here.
std::vector<InstructionSet> instruction_sets();

struct MachinePeak {
  double fma_gflops;     // f32 fused multiply-adds of one thread, counted as two operations
  double clock_ghz;      // core clock right after that loop
  double read_gb_per_s;  // from DRAM, one thread
};

// Measures for about `seconds` of CPU time with the chosen instruction set.
MachinePeak measure_peak(double seconds = 0.2);

struct CacheSizes {
  long l1_data, l2, l3;  // bytes; 0: unknown
};
CacheSizes cache_sizes();

}  // namespace rapt
