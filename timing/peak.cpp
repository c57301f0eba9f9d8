#include "timing/peak.h"

#include <string_view>

#include "rapt/instruction_sets.h"

namespace timing {

PeakInstruction peak_instruction(const rapt::Plan& plan, rapt::DType dtype) {
  if (std::string_view(plan.kernel).find("dot") != std::string_view::npos)
    return PeakInstruction::bf16_dot;
  if (std::string_view(plan.kernel).starts_with("tile registers"))
    return PeakInstruction::bf16_tiles;
  return dtype == rapt::DType::f64 ? PeakInstruction::f64_fma : PeakInstruction::f32_fma;
}

const char* name_of(PeakInstruction instruction) {
  switch (instruction) {
    case PeakInstruction::f32_fma:
      return "f32 FMA";
    case PeakInstruction::f64_fma:
      return "f64 FMA";
    case PeakInstruction::bf16_dot:
      return "bf16 dot";
    case PeakInstruction::bf16_tiles:
      return "tiles";
  }
  return "";
}

double peak_gflops(PeakInstruction instruction, double seconds) {
  if (instruction == PeakInstruction::bf16_dot) return rapt::measure_bf16_dot_gflops(seconds);
  if (instruction == PeakInstruction::bf16_tiles) return rapt::measure_tile_gflops(seconds);
  const double f32 = rapt::measure_fma_gflops(seconds);
  return instruction == PeakInstruction::f64_fma ? f32 / 2 : f32;
}

}  // namespace timing
