// The pool runs every task once, with the promised threads.
#include "rapt/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>

#include <csignal>
#include <deque>
#include <mutex>
#include <set>
#include <string>

#include "memory/allocation_hooks.h"
#include "rapt/error.h"
#include "threads/jobs.h"

namespace threads {
namespace {

using rapt::ThreadPool;

TEST(ThreadPool, EveryTaskOnce) {
  for (const int threads : {1, 2, 3, 8, 64}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.concurrency(), threads);
    for (const int64_t tasks : {0, 1, 2, 3, 63, 64, 65, 1000})
      for (const int workers : {-1, 0, 1, 2, 5, 1000})
        EXPECT_TRUE(runs_rightly(pool, tasks, std::max(1, workers)))
            << threads << " threads, " << tasks << " tasks, " << workers << " workers";
  }
}

TEST(ThreadPool, RefusesAbsurdSizes) {
  for (const int threads : {-1, ThreadPool::kMostThreads + 1}) try {
      ThreadPool pool(threads);
      ADD_FAILURE() << threads;
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::argument);
      EXPECT_NE(std::string(error.what()).find(std::to_string(threads)), std::string::npos);
    }
}

TEST(ThreadPool, StartsThreadsWhenTheyAreNeeded) {
  ThreadPool pool(16);
  EXPECT_EQ(pool.started_threads(), 0);
  EXPECT_TRUE(runs_rightly(pool, 1, 16));
  EXPECT_TRUE(runs_rightly(pool, 100, 1));
  EXPECT_EQ(pool.started_threads(), 0);
  for (int repeat = 0; repeat < 100; ++repeat) EXPECT_TRUE(runs_rightly(pool, 3, 16));
  EXPECT_LE(pool.started_threads(), 2);
  EXPECT_TRUE(Meeting(3).held_by(pool));
  EXPECT_EQ(pool.started_threads(), 2);
  for (int repeat = 0; repeat < 100; ++repeat) EXPECT_TRUE(runs_rightly(pool, 100, 5));
  EXPECT_TRUE(Meeting(5).held_by(pool, 5));
  EXPECT_EQ(pool.started_threads(), 4);
  EXPECT_TRUE(Meeting(16).held_by(pool));
  EXPECT_EQ(pool.started_threads(), 15);
}

// A lost wake-up would leave a task without its thread.
TEST(ThreadPool, EveryTaskCanHaveItsThread) {
  for (const int threads : {2, 3, 8, 24}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 300; ++repeat) {
      const int tasks = 2 + repeat % (threads - 1);
      ASSERT_TRUE(Meeting(tasks).held_by(pool)) << threads << " threads, repeat " << repeat;
      // Sometimes waits, so that the helpers go to sleep first.
      if (repeat % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(repeat));
    }
  }
}

TEST(ThreadPool, NoMoreThreadsThanAskedFor) {
  ThreadPool pool(6);
  struct Peak {
    std::atomic<int> now{0}, most{0};
    static void task(void* argument, int64_t, int) noexcept {
      auto& self = *static_cast<Peak*>(argument);
      const int here = ++self.now;
      for (int most = self.most; most < here && !self.most.compare_exchange_weak(most, here);) {
      }
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      --self.now;
    }
  };
  for (const int workers : {1, 2, 4, 6}) {
    Peak peak;
    for (int repeat = 0; repeat < 10; ++repeat) pool.run(40, Peak::task, &peak, workers);
    EXPECT_LE(peak.most, workers);
  }
}

// Waits until `condition` holds; returns false after 60 seconds.
template <class Condition>
bool comes_true(const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

// A job that runs until `end` is set and counts the threads in its tasks.
struct Open {
  static constexpr int64_t kTasks = 1 << 20;  // more than one minute of work
  std::atomic<bool> end{false};
  std::atomic<int> inside{0};
  static void task(void* argument, int64_t, int) noexcept {
    auto& self = *static_cast<Open*>(argument);
    if (self.end) return;
    ++self.inside;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    --self.inside;
  }
  std::thread start(ThreadPool& pool) {
    return std::thread([this, &pool] { pool.run(kTasks, task, this); });
  }
};

// Helpers leave when other callers need CPUs, and return when these callers have finished.
TEST(ThreadPool, NoMoreThreadsAtWorkThanTheLargerOfWidthAndCallers) {
  ThreadPool pool(4);
  Open first, second, third, fourth;
  std::thread first_host = first.start(pool);
  EXPECT_TRUE(comes_true([&] { return first.inside == 4; }));
  std::thread hosts[] = {second.start(pool), third.start(pool), fourth.start(pool)};
  const auto all_inside = [&] {
    return first.inside + second.inside + third.inside + fourth.inside;
  };
  const auto each_has_begun = [&] {
    return second.inside > 0 && third.inside > 0 && fourth.inside > 0;
  };
  EXPECT_TRUE(comes_true(each_has_begun));
  // A helper leaves after its current task, which takes long if the helper gets no CPU.
  const auto at_most_four = [&] {
    int most = 0;
    for (int look = 0; look < 200; ++look) {
      most = std::max(most, all_inside());
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    return most <= 4;
  };
  EXPECT_TRUE(comes_true(at_most_four));
  second.end = third.end = fourth.end = true;
  for (std::thread& host : hosts) host.join();
  EXPECT_TRUE(comes_true([&] { return first.inside == 4; }));
  first.end = true;
  first_host.join();
}

// Each caller's job needs two threads at once, so each caller's helper must join that caller's job.
TEST(ThreadPool, CallersDoNotWaitForEachOther) {
  ThreadPool pool(6);
  std::vector<std::thread> hosts;
  std::atomic<int> held{0};
  for (int i = 0; i < 3; ++i)
    hosts.emplace_back([&] {
      for (int repeat = 0; repeat < 200; ++repeat) held += Meeting(2).held_by(pool);
    });
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(held, 600);
}

// A job that ends only after another job has run does not block it.
TEST(ThreadPool, AShortJobPassesALongOne) {
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    struct Long {
      std::atomic<bool> may_end{false};
      static void task(void* self, int64_t, int) noexcept {
        while (!static_cast<Long*>(self)->may_end) std::this_thread::yield();
      }
    } long_job;
    std::thread host([&] { pool.run(10, Long::task, &long_job); });
    EXPECT_TRUE(runs_rightly(pool, 50, threads));
    long_job.may_end = true;
    host.join();
  }
}

TEST(ThreadPool, ManyHostThreads) {
  for (const int threads : {2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<std::thread> hosts;
    std::atomic<int> wrong{0};
    for (int i = 0; i < 80; ++i)  // more jobs than the pool has places
      hosts.emplace_back([&, i] {
        for (int repeat = 0; repeat < 20; ++repeat)
          wrong += !runs_rightly(pool, 1 + (i + repeat) % 9, 1 + i % 5);
      });
    for (std::thread& host : hosts) host.join();
    EXPECT_EQ(wrong, 0) << threads << " threads";
  }
}

struct Nest {
  ThreadPool& pool;
  int depth;
  std::atomic<int64_t> leaves{0};
  std::atomic<bool> wrong{false};

  struct Level {
    Nest& nest;
    int depth;
  };
  static void task(void* argument, int64_t, int) noexcept {
    auto& level = *static_cast<Level*>(argument);
    if (level.depth == 0) {
      ++level.nest.leaves;
      return;
    }
    if (!runs_rightly(level.nest.pool, 5, 3)) level.nest.wrong = true;
    Level below{level.nest, level.depth - 1};
    level.nest.pool.run(4, task, &below);
  }
  void run() {
    Level top{*this, depth};
    pool.run(4, task, &top);
  }
};

TEST(ThreadPool, TasksCallRun) {
  for (const int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    Nest nest{pool, 4};
    nest.run();
    EXPECT_EQ(nest.leaves, 4 * 4 * 4 * 4 * 4) << threads << " threads";
    EXPECT_FALSE(nest.wrong);

    Nest first{pool, 3}, second{pool, 3};
    std::thread host([&] { first.run(); });
    second.run();
    host.join();
    EXPECT_EQ(first.leaves + second.leaves, 2 * 256);
  }
}

TEST(ThreadPool, PoolsCallEachOther) {
  ThreadPool a(3), b(3);
  struct Pair {
    ThreadPool *inner, *outer;
    std::atomic<int> right{0};
    static void task(void* argument, int64_t, int) noexcept {
      auto& self = *static_cast<Pair*>(argument);
      struct Back {
        Pair& pair;
        static void task(void* back, int64_t, int) noexcept {
          Pair& pair = static_cast<Back*>(back)->pair;
          pair.right += runs_rightly(*pair.outer, 7, 3);
        }
      } back{self};
      self.inner->run(5, Back::task, &back);
    }
  };
  Pair ab{&b, &a}, ba{&a, &b};
  std::thread host([&] { a.run(6, Pair::task, &ab); });
  b.run(6, Pair::task, &ba);
  host.join();
  EXPECT_EQ(ab.right + ba.right, 60);
}

TEST(ThreadPool, WorksOnFewerCpusThanThreads) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  std::thread pinned([&] {
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    ThreadPool pool(16);
    for (int repeat = 0; repeat < 50; ++repeat) {
      EXPECT_TRUE(runs_rightly(pool, 100, 16));
      EXPECT_TRUE(Meeting(16).held_by(pool));
    }
  });
  pinned.join();
}

// Properties of the pool's threads.
struct Portraits {
  std::mutex mutex;
  std::set<std::string> names;
  std::set<int> cpus;  // numbers of CPUs that threads may use
  bool signals_open = false, faults_blocked = false;
  pthread_t host = pthread_self();
  Meeting together;

  explicit Portraits(int threads) : together(threads) {}
  static void task(void* argument, int64_t task, int worker) noexcept {
    auto& self = *static_cast<Portraits*>(argument);
    Meeting::task(&self.together, task, worker);
    if (pthread_equal(self.host, pthread_self())) return;
    char name[16] = {};
    pthread_getname_np(pthread_self(), name, sizeof name);
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    const std::lock_guard lock(self.mutex);
    self.names.insert(name);
    self.cpus.insert(CPU_COUNT(&cpus));
    for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE})
      self.signals_open |= !sigismember(&mask, signal);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE})
      self.faults_blocked |= sigismember(&mask, signal) == 1;
  }
};

TEST(ThreadPool, ThreadsHaveNamesAndTakeNoSignals) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  ThreadPool pool(4);
  Portraits portraits(4);
  pool.run(4, Portraits::task, &portraits);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(portraits.names, (std::set<std::string>{"rapt-1", "rapt-2", "rapt-3"}));
  EXPECT_FALSE(portraits.signals_open);
  EXPECT_FALSE(portraits.faults_blocked);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1})
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
}

TEST(ThreadPool, WorksWhereTheCallerBlocksAllSignals) {
  std::thread host([] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);
    ThreadPool pool(3);
    EXPECT_TRUE(Meeting(3).held_by(pool));
  });
  host.join();
}

// The first caller may be pinned. The pool's threads use the CPUs of the thread that made the pool.
TEST(ThreadPool, ThreadsDoNotInheritThePinOfTheFirstCaller) {
  cpu_set_t cpus;
  ASSERT_EQ(sched_getaffinity(0, sizeof cpus, &cpus), 0);
  if (CPU_COUNT(&cpus) < 2) GTEST_SKIP() << "one CPU only";
  ThreadPool pool(3);
  Portraits portraits(3);
  std::thread host([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
      if (CPU_ISSET(cpu, &cpus)) CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    portraits.host = pthread_self();
    pool.run(3, Portraits::task, &portraits);
  });
  host.join();
  EXPECT_EQ(portraits.cpus, std::set<int>{CPU_COUNT(&cpus)});
}

TEST(ThreadPool, EndsItsThreads) {
  for (int repeat = 0; repeat < 100; ++repeat) {
    ThreadPool pool(1 + repeat % 7);
    if (repeat % 2) {
      EXPECT_TRUE(runs_rightly(pool, 20, 7));
    }
    if (repeat % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(10 * repeat));
  }
}

TEST(ThreadPool, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "a sanitizer stands before malloc";
  ThreadPool pool(4);
  ASSERT_TRUE(Meeting(4).held_by(pool));
  std::deque<Record> records;
  for (int repeat = 0; repeat < 100; ++repeat) records.emplace_back(50, 4);
  laws::start_counting();
  for (Record& record : records) pool.run(record.tasks(), Record::task, &record);
  EXPECT_EQ(laws::stop_counting().made, 0);
  for (const Record& record : records) EXPECT_TRUE(record.every_task_once());
}

}  // namespace
}  // namespace threads
