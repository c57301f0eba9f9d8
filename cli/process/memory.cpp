// Memory of the machine, of this process, and the budget. Linux: /proc and control groups.
#include "cli/process/memory.h"

#include <fmt/format.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <fstream>
#include <limits>

#include "cli/process/failure.h"
#include "rapt/error.h"

namespace rapt::cli {
namespace {

// A line such as "VmHWM:   1234 kB" of a file of /proc, in bytes; -1 if there is none.
int64_t proc_bytes(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    int64_t kibibytes = 0;
    if (word == name + ":" && in >> kibibytes) return kibibytes * 1024;
  }
  return -1;
}

// The peak of the pages that the process held, without those of files and of shared memory (files
// in memory) that it holds now. -1 if the system does not tell.
int64_t peak_of_own_pages() {
  constexpr const char* kStatus = "/proc/self/status";
  const int64_t peak = proc_bytes(kStatus, "VmHWM");
  const int64_t of_files = proc_bytes(kStatus, "RssFile");
  const int64_t shared = proc_bytes(kStatus, "RssShmem");
  return peak < 0 || of_files < 0 || shared < 0 ? -1 : peak - of_files - shared;
}

int64_t number_in(const char* file) {  // -1 for "max", or for no such file
  std::ifstream in(file);
  int64_t value = 0;
  return in >> value ? value : -1;
}

int64_t saturated_sum(int64_t a, int64_t b) {
  const int64_t most = std::numeric_limits<int64_t>::max();
  return a > most - b ? most : a + b;
}

}  // namespace

std::string bytes_text(double bytes) {
  const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 6) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f} bytes", bytes)
                   : fmt::format("{:.1f} {}", bytes, units[unit]);
}

int64_t available_memory() {
  int64_t available = proc_bytes("/proc/meminfo", "MemAvailable");
  if (available < 0) available = std::numeric_limits<int64_t>::max();
  const int64_t most = number_in("/sys/fs/cgroup/memory.max");
  const int64_t used = number_in("/sys/fs/cgroup/memory.current");
  if (most >= 0 && used >= 0) available = std::min(available, std::max<int64_t>(0, most - used));
  return available;
}

int64_t resident_memory() { return proc_bytes("/proc/self/status", "VmRSS"); }

void require_memory(double bytes, const std::string& parts, const std::string& hint) {
  const auto available = static_cast<double>(available_memory());
  if (bytes > available)
    throw Failure(
        Exit::memory,
        fmt::format("needs {}, available {}: {}", bytes_text(bytes), bytes_text(available), parts),
        hint);
}

PeakMemory::PeakMemory() {
  // "5" sets the peak back to what is held now (proc(5), clear_refs).
  std::ofstream("/proc/self/clear_refs") << 5;
  at_start_ = peak_of_own_pages();
}

int64_t PeakMemory::growth() const {
  const int64_t now = peak_of_own_pages();
  // It may be less than at the start if older memory was freed.
  return at_start_ < 0 || now < 0 ? -1 : std::max<int64_t>(0, now - at_start_);
}

int64_t growth_by(const std::function<void()>& call) {
#if defined(__GLIBC__)
  malloc_trim(0);  // memory that earlier calls gave back would hide growth
#endif
  const PeakMemory memory;
  call();
  return memory.growth();
}

MemoryBudget::MemoryBudget(int64_t limit)
    : limit_(limit < 0 ? available_memory() : limit), given_(limit >= 0) {}

void MemoryBudget::take(int64_t bytes, const std::string& what) {
  const int64_t total = saturated_sum(taken_, bytes);
  if (total > limit_) {
    std::string message =
        fmt::format("needs {}, {} {}: {} {}", bytes_text(static_cast<double>(total)),
                    given_ ? "limit" : "available", bytes_text(static_cast<double>(limit_)), what,
                    bytes_text(static_cast<double>(bytes)));
    if (taken_ > 0) message += ", before that " + bytes_text(static_cast<double>(taken_));
    throw Error(ErrorCode::memory_limit, message);
  }
  taken_ = total;
}

}  // namespace rapt::cli
