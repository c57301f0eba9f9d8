#pragma once
// Memory: announced before it is allocated, and rejected beyond a limit.
#include <cstdint>
#include <functional>
#include <string>

namespace rapt::cli {

std::string bytes_text(double bytes);  // "8.6 MiB"

// The memory that this process may still allocate: free and reclaimable memory, or the limit of its
// control group if that is less. Linux.
int64_t available_memory();

// The memory that this process holds; -1 where the system does not tell.
int64_t resident_memory();

// Throws Failure(memory) with a hint if more bytes are needed than there are. `parts`: what takes
// them, such as "weights 3.0 GiB". A double, because a forecast need not fit 64 bits.
void require_memory(double bytes, const std::string& parts, const std::string& hint);

// The growth of the process's own memory since construction, at its peak: results, work, stacks.
// Pages of mapped files belong to the files and do not count; the system reclaims them when memory
// is scarce.
//
// Linux records only the peak of all pages, own and mapped. Mapped pages that exist at the end are
// subtracted from it. This is exact for a call that holds its memory until it ends, because mapped
// pages only grow until then. Own memory that was freed before later pages of files came in is
// missed; mapped pages that the system reclaimed meanwhile are counted.
class PeakMemory {
 public:
  PeakMemory();            // starts counting
  int64_t growth() const;  // bytes; -1 where the system does not tell

 private:
  int64_t at_start_ = -1;
};

// The growth of the process's own memory by a call that allocates its results and workspace, as
// PeakMemory counts it.
int64_t growth_by(const std::function<void()>& call);

// Counts the memory of a command. Needs are declared before allocation.
class MemoryBudget {
 public:
  // limit < 0: the memory that is available now.
  explicit MemoryBudget(int64_t limit);

  // Throws Error(memory_limit) that names `what` if it does not fit beside the memory taken so far.
  void take(int64_t bytes, const std::string& what);

  int64_t taken() const { return taken_; }
  int64_t left() const { return limit_ > taken_ ? limit_ - taken_ : 0; }
  int64_t limit() const { return limit_; }

 private:
  int64_t limit_;
  bool given_;  // the user's number, not the machine's
  int64_t taken_ = 0;
};

// From this size on a command announces an allocation on stderr.
inline constexpr int64_t kMemoryToTell = int64_t{256} << 20;

}  // namespace rapt::cli
