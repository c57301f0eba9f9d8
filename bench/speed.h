#pragma once
// How fast one thread computes each case of a list, held against the peak of the machine just then.
//
// Time: CPU time of the thread, the best of N calls after a warm-up; of calls shorter than a
// millisecond, the best of N rows of them.
// % of peak: useful flops (timing/) against the peak measured immediately before and after the
// case, the higher one. The peak is that of the instruction that the problem is multiplied with:
// the product of tile registers or the 16-bit dot product where the call takes them, else FMA, f64
// at half the rate of f32. Each multiplication of f32 counts once, be it six products of tiles.
// FMA/cycle: multiply-adds of whole vectors per core cycle (of dot products: such instructions), of
// which all cores here do at most 2; the median of 7 calls whose cycles are added up task by task
// from the core's clock just then. On cores whose clock depends on the instruction mix it is the
// fairer number; a goal is met by either. Not measured for calls shorter than a millisecond, whose
// tasks are as short as a look at the clock.
//
// A loop of its own and no benchmark library: those time by wall clock or process CPU time, decide
// the number of repetitions themselves, and have no place for a peak measured beside each case.
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

// A case that is ready to be called again and again.
struct Work {
  std::function<void(const rapt::Progress&)> call;
  double useful_flops;
  timing::PeakInstruction instruction;
};

// Makes it from a Problem of timing/, which it keeps.
template <class Problem>
Work work_of(const check::Descriptor& descriptor) {
  const auto problem = std::make_shared<Problem>(descriptor);
  return {[problem](const rapt::Progress& progress) { problem->call(progress); },
          problem->useful_flops(),
          timing::peak_instruction(problem->plan(), problem->descriptor().dtype)};
}

// "avx2": as in RAPT_ISA.
const char* chosen_isa();

// Measures and prints those that are wanted: `cases`, or the descriptors of the command line, if
// there are some. `table`: the name that JSON lines have for it. Returns whether any was wanted.
bool measure_speed(const Arguments& arguments, const char* table,
                   const std::vector<SpeedCase>& cases,
                   const std::function<Work(const check::Descriptor&)>& work_of);

}  // namespace bench
