// The public pool: which crew serves a call, which calls need none, and the pool of the process.
#include "rapt/thread_pool.h"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>

#include "rapt/error.h"
#include "threads/crew.h"

namespace rapt {
namespace {

int checked(int threads) {
  if (threads < 0 || threads > ThreadPool::kMostThreads)
    throw Error(ErrorCode::argument, "a pool has 1 to " + std::to_string(ThreadPool::kMostThreads) +
                                         " threads, or 0 for what the machine gives; got " +
                                         std::to_string(threads));
  return threads ? threads : default_threads();
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : threads_(checked(threads)), crew_(new Crew(threads_, CpuMask::of_thread(0))) {}

// The CPUs of the main thread, because the host may have pinned the first caller.
ThreadPool::ThreadPool(ForTheProcess)
    : threads_(default_threads()), crew_(new Crew(threads_, CpuMask::of_thread(getpid()))) {}

ThreadPool::~ThreadPool() { delete crew_.load(); }

void ThreadPool::run(int64_t tasks, Task task, void* argument) {
  run(tasks, task, argument, threads_);
}

void ThreadPool::run(int64_t tasks, Task task, void* argument, int most_workers) {
  const auto workers = static_cast<int>(std::min<int64_t>(std::min(most_workers, threads_), tasks));
  if (workers > 1)
    if (Crew* helpers = crew(); helpers && helpers->run(tasks, task, argument, workers)) return;
  for (int64_t t = 0; t < tasks; ++t) task(argument, t, 0);
}

int ThreadPool::started_threads() const noexcept {
  const Crew* helpers = crew_.load();
  return helpers->of_this_process() ? helpers->started_threads() : 0;
}

// Null: no memory for a new one.
Crew* ThreadPool::crew() noexcept try {
  Crew* now = crew_.load();
  while (!now->of_this_process()) {
    auto next = std::make_unique<Crew>(threads_, CpuMask::of_thread(getpid()));
    next->before_fork = now;
    if (crew_.compare_exchange_strong(now, next.get())) return next.release();
    next->before_fork = nullptr;  // another thread was first; `now` is its crew
  }
  return now;
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Never destroyed: threads of the host may be in it when static objects are destroyed. Its sleeping
// threads stand in this code, so the module that holds it must not be unmapped: dlclose() of a
// plugin that rapt is linked into does nothing then, and the next dlopen() finds the same pool.
//
// No static local variable: a fork while another thread is at its initialisation would leave the
// child waiting for that thread.
ThreadPool& default_pool() {
  static std::atomic<ThreadPool*> pool{nullptr};
  ThreadPool* now = pool.load();
  if (now) return *now;
  std::unique_ptr<ThreadPool> mine(new ThreadPool(ThreadPool::ForTheProcess{}));
  if (!pool.compare_exchange_strong(now, mine.get())) return *now;
  Dl_info here;
  if (dladdr(&pool, &here) && here.dli_fname)
    dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
  return *mine.release();
}

}  // namespace rapt
