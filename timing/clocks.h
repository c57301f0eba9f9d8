#pragma once
// The clocks that calls are timed by.

namespace timing {

// CPU time of the calling thread: what a neighbour on the machine cannot add to.
double thread_cpu_seconds() noexcept;

// Wall time: for calls of several threads.
double wall_seconds() noexcept;

// The clock that the core runs at right now, in GHz; 0 where it cannot be measured. Takes about
// 4 microseconds, so that it can be asked between two tasks of a call. Needed because clocks move:
// with temperature, with the neighbours, and on Intel with the mix of instructions.
double core_clock_ghz() noexcept;

}  // namespace timing
