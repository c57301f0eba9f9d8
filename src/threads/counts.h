#pragma once
// The state of a pool's threads in one atomic word. A thread that decides whether to wake a helper
// reads all counts of the same moment.
#include <algorithm>
#include <atomic>
#include <cstdint>

namespace rapt {

struct Counts {
  int64_t seats = 0;      // free places for helpers in all running jobs; below 0 for a moment, when
                          // a job ends just as a helper joins it
  int64_t busy = 0;       // threads that run tasks: callers and helpers
  int64_t searching = 0;  // helpers that are awake without a job, or are being woken
  int64_t idle = 0;       // helpers that sleep and are not being woken

  // The number of sleeping helpers to wake, in a pool where at most `width` threads run tasks.
  int64_t missing(int64_t width) const noexcept {
    return std::min({std::min(seats, width - busy) - searching, idle});
  }
  // The same, if threads could still be started.
  int64_t missing_threads(int64_t width) const noexcept {
    return std::min(seats, width - busy) - searching - idle;
  }
};

class AtomicCounts {
 public:
  Counts load() const noexcept { return unpack(word_.load()); }

  // Only the seats may become negative: the other fields would borrow from the next one.
  void add(Counts change) noexcept { word_.fetch_add(pack(change)); }

  // Adds `change` if `condition` holds for the counts, in one atomic step.
  template <class Condition>
  bool add_if(const Condition& condition, Counts change) noexcept {
    uint64_t word = word_.load();
    while (condition(unpack(word)))
      if (word_.compare_exchange_weak(word, word + pack(change))) return true;
    return false;
  }

 private:
  // 14 bits hold the 8192 threads of the largest pool and its 64 callers; 20 the seats of 64 jobs.
  static constexpr int kBits = 14;

  static constexpr uint64_t pack(Counts c) noexcept {
    return static_cast<uint64_t>((c.seats << 3 * kBits) + (c.busy << 2 * kBits) +
                                 (c.searching << kBits) + c.idle);
  }
  static constexpr Counts unpack(uint64_t word) noexcept {
    const auto field = [&](int i) {
      return static_cast<int64_t>(word >> (i * kBits) & ((1u << kBits) - 1));
    };
    return {static_cast<int64_t>(word) >> 3 * kBits, field(2), field(1), field(0)};
  }

  std::atomic<uint64_t> word_{0};
};

}  // namespace rapt
