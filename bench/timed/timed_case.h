#pragma once
// Measurements of products and layers, each in turn with what it is compared with.
//
// A round measures the peak (or the speed of reading, or of memcpy) and then the case; the
// percentage is the median over the rounds of one by the other in the same round, and the time is
// the median. One thread: CPU time of the thread. Several: wall time, and the peak of one thread
// times their number.
#include <functional>
#include <string>
#include <vector>

#include "arguments.h"

namespace bench {

// A case that is ready for repeated calls.
struct TimedCase {
  std::string name;
  double flops = 0;       // of the products of a call; 0: none decide its time
  double bytes_read = 0;  // if reading decides: compared with plain reading of as many bytes
  // If copying decides: compared with memcpy of as many bytes, in pieces of so many. glibc copies
  // large pieces past the caches.
  double bytes_copied = 0, bytes_of_piece = 0;
  int threads = 1;
  std::function<void()> call;
};

// A case by its name, and how to make it: inputs of all cases at once would take too much memory.
struct CaseMaker {
  std::string name;
  double work = 0;  // operations or numbers, so that --quick leaves long cases out
  std::function<TimedCase()> make;
};

// Measures and prints the requested cases. `table`: the name of the table in JSON lines. Returns
// whether any case was requested.
bool measure_cases(const Arguments& arguments, const char* table,
                   const std::vector<CaseMaker>& cases);

}  // namespace bench
