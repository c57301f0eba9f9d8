#pragma once
// Executors for difficult cases: many threads, unusual orders, one thread, and one that fails.
#include <atomic>
#include <exception>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check/tensors/random.h"
#include "rapt/context.h"

namespace laws {

// `threads` new threads per call, which share the tasks.
class Threads final : public rapt::Executor {
 public:
  explicit Threads(int threads) : threads_(threads) {}
  int concurrency() const noexcept override { return threads_; }
  void run(int64_t tasks, Task task, void* argument) override {
    std::atomic<int64_t> next{0};
    std::vector<std::thread> pool;
    for (int worker = 0; worker < threads_; ++worker)
      pool.emplace_back([&, worker] {
        for (int64_t t; (t = next.fetch_add(1)) < tasks;) task(argument, t, worker);
      });
    for (std::thread& thread : pool) thread.join();
  }

 private:
  int threads_;
};

// One thread that runs tasks in a random order, each as any of `workers` workers.
class Shuffled final : public rapt::Executor {
 public:
  Shuffled(uint64_t seed, int workers) : random_(seed), workers_(workers) {}
  int concurrency() const noexcept override { return workers_; }
  void run(int64_t tasks, Task task, void* argument) override {
    for (const int64_t t : random_.permutation(tasks))
      task(argument, t, static_cast<int>(random_.between(0, workers_ - 1)));
  }

 private:
  check::Random random_;
  int workers_;
};

// One thread that runs the last task first.
class Reversed final : public rapt::Executor {
 public:
  int concurrency() const noexcept override { return 1; }
  void run(int64_t tasks, Task task, void* argument) override {
    for (int64_t t = tasks; t-- > 0;) task(argument, t, 0);
  }
};

// Calls visit(context) with each executor.
template <class Visit>
void for_each_executor(check::Random& random, const Visit& visit) {
  Reversed reversed;
  Shuffled shuffled(random.next(), 5);
  Threads two(2), three(3), nine(9);
  rapt::Executor* const executors[] = {&reversed, &shuffled, &two, &three, &nine};
  for (rapt::Executor* executor : executors) {
    rapt::Context context;
    context.executor = executor;
    visit(context);
  }
}

// A pool that fails after `good` tasks.
class Throwing final : public rapt::Executor {
 public:
  explicit Throwing(int64_t good) : good_(good) {}
  int concurrency() const noexcept override { return 1; }
  void run(int64_t tasks, Task task, void* argument) override {
    for (int64_t t = 0; t < tasks; ++t) {
      if (t >= good_) throw std::runtime_error("the pool is gone");
      task(argument, t, 0);
    }
  }

 private:
  int64_t good_;
};

}  // namespace laws
