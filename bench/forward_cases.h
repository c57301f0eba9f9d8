#pragma once
// The problems of the speed table, and what each must reach on the machines we know.
#include <string>
#include <vector>

namespace bench {

struct ForwardCase {
  std::string name;
  std::string problem;      // as in check/descriptor.h
  double goal_percent = 0;  // of the peak, on this machine; 0: none was set for it
};

// The cases for the instruction set in use. AVX2 that was forced by RAPT_ISA has cases of its own.
std::vector<ForwardCase> forward_cases();

}  // namespace bench
