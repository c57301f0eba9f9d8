#pragma once
// Memory: announced before it is allocated, and rejected beyond a limit.
#include <cstdint>
#include <string>

namespace rapt::cli {

std::string bytes_text(double bytes);  // "8.6 MiB"

// The memory that this process may still allocate: free and reclaimable memory, or the limit of its
// control group if that is less. Linux.
int64_t available_memory();

// How much more memory of its own the process has held at most since this was made: results, work,
// stacks. Pages of mapped files belong to the files and are left out; the system takes them back
// when memory is scarce.
//
// Linux keeps the peak of all pages alone, own and mapped. Mapped pages that are there at the end
// are subtracted from it. That is exact for a call that holds its work until it ends, as mapped
// pages only add up until then. Own memory that was given back before later pages of files came in
// is not counted; mapped pages that the system took back meanwhile are.
class PeakMemory {
 public:
  PeakMemory();            // starts counting
  int64_t growth() const;  // bytes; -1 where the system does not tell

 private:
  int64_t at_start_ = -1;
};

// Counts the memory of a command. Needs are declared before allocation.
class MemoryBudget {
 public:
  // limit < 0: what is available now.
  explicit MemoryBudget(int64_t limit);

  // Throws Error(memory_limit) that names `what`, when it does not fit beside what is taken.
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
