#pragma once
// A set of CPUs, as the scheduler keeps it for a thread.
#include <sched.h>

#include <vector>

namespace rapt {

class CpuMask {
 public:
  // Of a thread; 0: the calling one. The number of the process is that of its main thread.
  static CpuMask of_thread(int thread);

  // At least 1.
  int count() const noexcept;
  // Confines the calling thread to this set. If the system refuses, because the process has lost
  // those CPUs, the thread keeps its set.
  void apply() const noexcept;

 private:
  std::vector<cpu_set_t> sets_;  // the kernel's bits, in as many words as it has; empty: unknown
};

}  // namespace rapt
