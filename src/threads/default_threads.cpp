// The number of threads that the machine allows.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>

#include "rapt/error.h"
#include "rapt/thread_pool.h"
#include "threads/cgroup_quota.h"
#include "threads/cpu_mask.h"

namespace rapt {
namespace {

int threads_from(const std::string& text) {
  int threads = 0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, threads);
  if (error != std::errc() || parsed != end || threads < 1 || threads > ThreadPool::kMostThreads)
    throw Error(ErrorCode::argument, "RAPT_THREADS=" + text + ": expected a number from 1 to " +
                                         std::to_string(ThreadPool::kMostThreads) +
                                         "; unset RAPT_THREADS to take what the machine gives");
  return threads;
}

}  // namespace

int default_threads() {
  const char* wanted = std::getenv("RAPT_THREADS");
  if (wanted && *wanted) return threads_from(wanted);
  // The mask of the main thread, because the host may have pinned the calling one.
  const int cpus = std::min(CpuMask::of_thread(getpid()).count(), ThreadPool::kMostThreads);
  // Whole CPUs only: one thread more, and all would stop at the end of each quota period.
  const double quota = cgroup_cpus("");
  return quota > 0 && quota < cpus ? std::max(1, static_cast<int>(quota)) : cpus;
}

}  // namespace rapt
