#pragma once
// The speed of one thread for each case of a list, relative to the peak of the machine at that
// time.
//
// Time: CPU time of the thread, the best of N calls after a warm-up; for calls shorter than a
// millisecond, the best of N runs of several calls.
// % of peak: useful flops (timing/) against the peak measured immediately before and after the
// case, the higher one. The peak is that of the instruction that the call multiplies with: the
// product of tile registers or the 16-bit dot product where the call uses them, else FMA, f64 at
// half the rate of f32. A multiplication of f32 counts once, even if it is computed by six products
// of tiles.
// FMA/cycle: multiply-adds of whole vectors per core cycle (for dot products: such instructions).
// No core here does more than 2. The median of 7 calls; a call's cycles are the sum over its tasks,
// each measured with the core's clock at that time. On cores whose clock depends on the instruction
// mix it is the fairer number; a goal is met by either. Not measured for calls shorter than a
// millisecond, because their tasks are as short as a measurement of the clock.
//
// This is a plain loop and not a benchmark library: those measure wall clock or process CPU time,
// decide the number of repetitions themselves, and cannot measure a peak beside each case.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "arguments.h"
#include "check/problem/descriptor.h"
#include "rapt/context.h"
#include "timing/peak.h"

namespace bench {

struct SpeedCase {
  std::string name;
  std::string problem;      // as in check/problem/descriptor.h
  double goal_percent = 0;  // of the peak, on this machine; 0: none was set for it
};

// A case that is ready for repeated calls.
struct Work {
  std::function<void(const rapt::Progress&)> call;
  double useful_flops;
  timing::PeakInstruction instruction;
};

// Makes it from a Problem of timing/, which it owns.
template <class Problem>
Work work_of(const check::Descriptor& descriptor) {
  const auto problem = std::make_shared<Problem>(descriptor);
  return {[problem](const rapt::Progress& progress) { problem->call(progress); },
          problem->useful_flops(),
          timing::peak_instruction(problem->plan(), problem->descriptor().dtype)};
}

// "avx2": as in RAPT_ISA.
const char* chosen_isa();

// Measures and prints the requested cases: `cases`, or the descriptors of the command line, if
// there are any. `table`: the name of the table in JSON lines. Returns whether any case was
// requested.
bool measure_speed(const Arguments& arguments, const char* table,
                   const std::vector<SpeedCase>& cases,
                   const std::function<Work(const check::Descriptor&)>& work_of);

}  // namespace bench
