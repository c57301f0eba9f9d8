#pragma once
// The library's own threads: a small pool that any number of host threads may use at once.
//
// The caller of run() works on its own tasks, and idle threads of the pool help. At the end it
// waits for helpers that still run one of its tasks, never for another caller's tasks. So calls may
// be nested, and may come from OpenMP or TBB threads. There are never more callers and helpers at
// work than the larger of concurrency() and the number of callers.
#include <atomic>
#include <cstdint>

#include "rapt/context.h"

namespace rapt {

class Crew;

class ThreadPool final : public Executor {
 public:
  // `threads` includes the caller of run(); 0: default_threads(). Starts no thread yet. The threads
  // may run on the CPUs that the constructing thread may use now. Throws Error(argument) if
  // `threads` is negative or above kMostThreads.
  explicit ThreadPool(int threads = 0);

  // Ends and joins the threads. No run() may be in progress.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int concurrency() const noexcept override { return threads_; }

  // Threads are started when a call first has work for them, never more than it has tasks. If the
  // system refuses a thread, the pool uses those that it has. The threads block all signals except
  // those of faults. Allocates nothing once its threads run. Throws nothing.
  //
  // After a fork() the child starts threads of its own. A task that forks must not return in the
  // child, because the other tasks of its call do not exist there.
  void run(int64_t tasks, Task task, void* argument) override;

  // The same with at most `most_workers` threads, this one included; below 1 counts as 1. The
  // `worker` of a task is below both most_workers and concurrency().
  void run(int64_t tasks, Task task, void* argument, int most_workers);

  // The number of threads that this process has started for the pool.
  int started_threads() const noexcept;

  // The largest number of CPUs of Linux on x86-64; a larger number is an error.
  static constexpr int kMostThreads = 8192;

 private:
  friend ThreadPool& default_pool();
  struct ForTheProcess {};
  explicit ThreadPool(ForTheProcess);
  Crew* crew() noexcept;

  const int threads_;
  std::atomic<Crew*> crew_;  // of this process; after a fork the child makes its own
};

// The pool of the process, with default_threads() threads. It is created at the first call and
// never destroyed, so destructors of static objects can use it. Throws as default_threads() does.
ThreadPool& default_pool();

// The number of threads that can run at once: the number of CPUs that the process may use or the
// whole CPUs of its cgroups' quota, whichever is smaller; at least 1. RAPT_THREADS in the
// environment overrides it. Throws Error(argument) if RAPT_THREADS is not a number from 1 to
// kMostThreads.
int default_threads();

}  // namespace rapt
