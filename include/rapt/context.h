#pragma once
// What surrounds a call: who runs its tasks, who may stop it, who is told, how much memory it gets.
#include <atomic>
#include <cstdint>

namespace rapt {

// Runs the tasks of a call. Replace it by your engine's own pool; results do not depend on it.
class Executor {
 public:
  using Task = void (*)(void* argument, int64_t task, int worker) noexcept;

  virtual ~Executor() = default;

  // How many tasks may run at once; must not change during a call. `worker` in run() is below it;
  // each worker has a workspace.
  virtual int concurrency() const noexcept = 0;

  // Calls task(argument, t, worker) once for every t in [0, tasks), in any order; two calls that
  // overlap in time have different workers. Returns when all have returned; throws only when none
  // is running any more. A call may run() several times, one after the other.
  virtual void run(int64_t tasks, Task task, void* argument) = 0;
};

// Stops a call from another thread. The call checks it per tile, leaves its outputs unspecified and
// throws Error(cancelled).
class CancelToken {
 public:
  void cancel() noexcept { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return cancelled_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> cancelled_{false};
};

// Told as tasks end, from whichever thread ended one; never from two threads at once.
struct Progress {
  void (*report)(void* user, double fraction) = nullptr;  // 0 <= fraction <= 1, must not throw
  void* user = nullptr;
};

// What a call may do to be fast. Its bits are the same.
enum class Memory : uint8_t {
  automatic,  // where tile registers multiply, keys and values are packed once: 2 bytes for each
              // number of bf16, 6 of f32 and f16
  low,        // they are packed some at a time, for some queries at a time
};

struct Context {
  // Null: the library's own threads (thread_pool.h). A problem that is not worth a second thread is
  // done by the calling thread without asking the executor.
  Executor* executor = nullptr;
  // At most so many of the library's own, the caller included; 0: as many as the machine gives to
  // the process (default_threads()), which is also the most that there are. Small problems take
  // fewer; plan() says how many. 1: the calling thread does all. Beside an executor: 0.
  int threads = 0;
  const CancelToken* cancel = nullptr;  // null: cannot be stopped
  Progress progress = {};
  Memory memory = Memory::automatic;  // how much of it a call may take to be fast
  int64_t memory_limit = -1;  // bytes that a call may allocate, its results included; -1: no limit.
                              // The call with the caller's memory allocates nothing.
};

}  // namespace rapt
