#pragma once
// The library's own threads: a small pool that any number of host threads may use at once.
//
// Who calls run() works on its own tasks; idle threads of the pool help. A caller never waits for
// another caller's tasks, only, at its end, for the helpers that are still at one of its own. So
// calls may be nested, and may come from OpenMP or TBB threads: callers and helpers together never
// are more than the larger of concurrency() and the number of callers.
#include <atomic>
#include <cstdint>

#include "rapt/context.h"

namespace rapt {

class Crew;

class ThreadPool final : public Executor {
 public:
  // `threads` counts the caller of run(); 0: default_threads(). Starts none yet. Its threads may
  // run on the CPUs that the constructing thread may use now. Throws Error(argument) if `threads`
  // is negative or above kMostThreads.
  explicit ThreadPool(int threads = 0);

  // Ends and joins the threads. No run() may be under way.
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int concurrency() const noexcept override { return threads_; }

  // Threads are started when a call first has work for them, never more than it has tasks; where
  // the system refuses one, the pool goes on with those that it has. They block all signals but
  // those of faults. Allocates nothing once its threads run. Throws nothing.
  //
  // After a fork() the child starts threads of its own; only a task that forks must not return in
  // the child, because the other tasks of its call are gone.
  void run(int64_t tasks, Task task, void* argument) override;

  // The same with at most `most_workers` threads, this one included; below 1 counts as 1. The
  // `worker` of a task is below both most_workers and concurrency().
  void run(int64_t tasks, Task task, void* argument, int most_workers);

  // How many threads this process has started for the pool.
  int started_threads() const noexcept;

  // What Linux can count on the largest x86-64 machines; more is a slip of the pen.
  static constexpr int kMostThreads = 8192;

 private:
  friend ThreadPool& default_pool();
  struct ForTheProcess {};
  explicit ThreadPool(ForTheProcess);
  Crew* crew() noexcept;

  const int threads_;
  std::atomic<Crew*> crew_;  // of this process; after a fork the child makes its own
};

// The pool of the process, of default_threads() threads, made at the first call. It is never
// destroyed: it can be used by destructors of static objects, and ends with the process. Throws as
// default_threads() does.
ThreadPool& default_pool();

// How many threads can run at once: the CPUs that the process may use, or, if that is less, the
// whole CPUs that its cgroups' quota is worth; at least 1. RAPT_THREADS in the environment
// overrides it. Throws Error(argument) if RAPT_THREADS is not a number from 1 to kMostThreads.
int default_threads();

}  // namespace rapt
