#pragma once
// The context of a call: executor, number of threads, cancellation, progress, memory.
#include <atomic>
#include <cstdint>

namespace rapt {

// Runs the tasks of a call. Derive from it to use your engine's thread pool; results do not depend
// on it.
class Executor {
 public:
  using Task = void (*)(void* argument, int64_t task, int worker) noexcept;

  virtual ~Executor() = default;

  // The number of tasks that may run at once; constant during a call. `worker` in run() is below
  // it, and each worker has its own scratch.
  virtual int concurrency() const noexcept = 0;

  // Calls task(argument, t, worker) once for every t in [0, tasks), in any order. Two calls that
  // overlap in time have different workers. Returns after all tasks have returned, and throws only
  // when no task is running any more. A call may run() several times, one after the other.
  virtual void run(int64_t tasks, Task task, void* argument) = 0;
};

// Stops a call from another thread. The call checks it per tile, throws Error(cancelled) and leaves
// its outputs unspecified.
class CancelToken {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

// Called when a task ends, on the thread that ended it; never by two threads at once.
struct Progress {
  void (*report)(void* user, double fraction) = nullptr;  // 0 <= fraction <= 1, must not throw
  void* user = nullptr;
};

// How much memory a call may use for speed. The bits of results are the same.
enum class Memory : uint8_t {
  automatic,  // where tile registers multiply, keys and values are packed once: 2 bytes for each
              // number of bf16, 6 of f32 and f16
  low,        // keys and values are packed block by block, once per work unit
};

struct Context {
  // Null: the library's own threads (thread_pool.h). If a second thread would not pay for a
  // problem, the calling thread computes it without using the executor.
  Executor* executor = nullptr;
  // The maximum number of threads of the library, the caller included. 0: default_threads(), which
  // is also the upper limit. 1: the calling thread only. Small problems use fewer; plan() says how
  // many. Must be 0 if there is an executor.
  int threads = 0;
  const CancelToken* cancel = nullptr;  // null: cannot be stopped
  Progress progress = {};
  Memory memory = Memory::automatic;  // how much memory a call may use for speed
  int64_t memory_limit = -1;  // bytes that a call may allocate, its results included; -1: no limit.
                              // The call with the caller's memory allocates nothing.
};

}  // namespace rapt
