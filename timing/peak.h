#pragma once
// The peak with which a problem's speed is compared: that of the instruction that multiplies it.
#include "rapt/attention.h"

namespace timing {

enum class PeakInstruction { f32_fma, f64_fma, bf16_dot, bf16_tiles };

// Tile registers or the 16-bit dot product if the call uses them, else FMA.
PeakInstruction peak_instruction(const rapt::Plan& plan, rapt::DType dtype);

const char* name_of(PeakInstruction instruction);  // "f32 FMA"

// The peak of one thread, measured for about `seconds`; f64 has half the rate of f32.
double peak_gflops(PeakInstruction instruction, double seconds);

}  // namespace timing
