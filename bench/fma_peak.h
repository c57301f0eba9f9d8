#pragma once
// The denominator of "percent of the peak".

namespace bench {

// The f32 rate, in GF/s, that one core reaches now with nothing but fused multiply-adds of the
// instruction set in use: the best of many loops of 0.1 ms within 30 ms of CPU time. It is the loop
// behind rapt::measure_peak, taken from the kernel table because measure_peak also reads the DRAM,
// which would cool the core down and empty the caches between two cases.
double fma_peak_gflops();

// f32 numbers per vector of the instruction set in use.
int lanes();

}  // namespace bench
