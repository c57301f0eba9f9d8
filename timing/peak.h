#pragma once
// The peak that a problem's speed is held against: of the instruction that it is multiplied with.
#include "rapt/attention.h"

namespace timing {

enum class PeakInstruction { f32_fma, f64_fma, bf16_dot, bf16_tiles };

// Tile registers or the 16-bit dot product where the call takes them, else FMA.
PeakInstruction peak_instruction(const rapt::Plan& plan, rapt::DType dtype);

const char* name_of(PeakInstruction instruction);  // "f32 FMA"

// Of one thread, measured for about `seconds`; f64 at half the rate of f32.
double peak_gflops(PeakInstruction instruction, double seconds);

}  // namespace timing
