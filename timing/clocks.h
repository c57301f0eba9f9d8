#pragma once
// The clocks for timing calls.

namespace timing {

// CPU time of the calling thread, which excludes time of other processes.
double thread_cpu_seconds() noexcept;

// Wall time: for calls of several threads.
double wall_seconds() noexcept;

// The current clock of the core in GHz; 0 if it cannot be measured. Takes about 4 microseconds, so
// it can be read between two tasks of a call. Clocks change with temperature, with other load and,
// on Intel, with the mix of instructions.
double core_clock_ghz() noexcept;

}  // namespace timing
