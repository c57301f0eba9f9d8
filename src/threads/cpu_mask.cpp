#include "threads/cpu_mask.h"

#include <algorithm>
#include <cerrno>

namespace rapt {

CpuMask CpuMask::of_thread(int thread) {
  CpuMask mask;
  // A cpu_set_t holds 1024 CPUs. A kernel that was built for more refuses it with EINVAL.
  for (size_t sets = 1; sets <= 64; sets *= 2) {
    mask.sets_.assign(sets, cpu_set_t{});
    if (sched_getaffinity(thread, sets * sizeof(cpu_set_t), mask.sets_.data()) == 0) return mask;
    if (errno != EINVAL) break;
  }
  mask.sets_.clear();
  return mask;
}

int CpuMask::count() const noexcept {
  int cpus = 0;
  for (const cpu_set_t& set : sets_) cpus += CPU_COUNT(&set);
  return std::max(1, cpus);
}

void CpuMask::apply() const noexcept {
  if (!sets_.empty()) sched_setaffinity(0, sets_.size() * sizeof(cpu_set_t), sets_.data());
}

}  // namespace rapt
