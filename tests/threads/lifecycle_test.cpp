// Forks, system limits, and the pool of the process.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <memory>
#include <string>

#include "rapt/thread_pool.h"
#include "support/sanitizers.h"
#include "threads/jobs.h"

namespace threads {
namespace {

using rapt::ThreadPool;

class Fork : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__)
    // The sanitizer confuses threads of the child with those of the parent.
    GTEST_SKIP() << "the thread sanitizer does not follow children that start threads";
#endif
  }
};

TEST_F(Fork, BeforeTheFirstUse) {
  ThreadPool pool(4);
  EXPECT_EQ(wrong_in_child([&] { return Meeting(4).held_by(pool); }), "");
  EXPECT_TRUE(Meeting(4).held_by(pool));
}

// OpenBLAS #240, PyTorch #17199
TEST_F(Fork, AfterUse) {
  ThreadPool pool(4);
  for (int repeat = 0; repeat < 10; ++repeat) {
    ASSERT_TRUE(Meeting(4).held_by(pool));
    EXPECT_EQ(
        wrong_in_child([&] { return pool.started_threads() == 0 && Meeting(4).held_by(pool); }),
        "");
    EXPECT_EQ(pool.started_threads(), 3);
  }
  EXPECT_TRUE(Meeting(4).held_by(pool));
}

TEST_F(Fork, ChildrenOfChildren) {
  ThreadPool pool(3);
  ASSERT_TRUE(Meeting(3).held_by(pool));
  EXPECT_EQ(wrong_in_child([&] {
              return Meeting(3).held_by(pool) &&
                     wrong_in_child([&] { return Meeting(3).held_by(pool); }).empty() &&
                     Meeting(3).held_by(pool);
            }),
            "");
}

TEST_F(Fork, TheChildDestroysThePool) {
  auto pool = std::make_unique<ThreadPool>(3);
  ASSERT_TRUE(Meeting(3).held_by(*pool));
  const auto child = [&](bool use) {
    const bool right = !use || Meeting(3).held_by(*pool);
    pool.reset();
    return right;
  };
  EXPECT_EQ(wrong_in_child([&] { return child(false); }), "");
  EXPECT_EQ(wrong_in_child([&] { return child(true); }), "");
  EXPECT_TRUE(Meeting(3).held_by(*pool));
}

// The fork may happen at any point of other threads' run() calls.
TEST_F(Fork, WhileOthersAreInRun) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "GCC 12's address sanitizer forks while a thread holds its allocator's lock";
#endif
  ThreadPool pool(4);
  std::atomic<bool> end{false}, wrong{false};
  std::vector<std::thread> hosts;
  for (int i = 0; i < 3; ++i)
    hosts.emplace_back([&, i] {
      while (!end)
        if (!runs_rightly(pool, 2 + i, 4)) wrong = true;
    });
  for (int repeat = 0; repeat < 40; ++repeat)
    EXPECT_EQ(wrong_in_child([&] { return Meeting(4).held_by(pool); }), "") << "repeat " << repeat;
  end = true;
  for (std::thread& host : hosts) host.join();
  EXPECT_FALSE(wrong);
}

TEST_F(Fork, ManyThreadsOfTheChildAtOnce) {
  ThreadPool pool(4);
  ASSERT_TRUE(Meeting(4).held_by(pool));
  EXPECT_EQ(wrong_in_child([&] {
              std::atomic<int> right{0};
              std::vector<std::thread> hosts;
              for (int i = 0; i < 8; ++i)
                hosts.emplace_back([&] { right += runs_rightly(pool, 30, 4); });
              for (std::thread& host : hosts) host.join();
              return right == 8;
            }),
            "");
}

// A task calls fork(). Its child can use the pool while the task has not returned.
TEST_F(Fork, FromATask) {
  ThreadPool pool(3);
  struct Forking {
    ThreadPool& pool;
    std::atomic<int> wrong{0};
    static void task(void* argument, int64_t, int) noexcept {
      auto& self = *static_cast<Forking*>(argument);
      self.wrong += !wrong_in_child([&] { return Meeting(3).held_by(self.pool); }).empty();
    }
  } forking{pool};
  pool.run(6, Forking::task, &forking);
  EXPECT_EQ(forking.wrong, 0);
}

TEST_F(Fork, ThePoolOfTheProcess) {
  ThreadPool& pool = rapt::default_pool();
  const int threads = pool.concurrency();
  EXPECT_EQ(wrong_in_child([&] { return Meeting(threads).held_by(rapt::default_pool()); }), "");
  EXPECT_TRUE(Meeting(threads).held_by(pool));
  EXPECT_EQ(wrong_in_child([&] { return Meeting(threads).held_by(rapt::default_pool()); }), "");
}

// Memory for the stacks of most threads is missing, which the system reports like a limit on
// threads. A few threads still start, because the C library reuses stacks of ended threads.
TEST(Limits, GoesOnWithoutThreads) {
  if (RAPT_SANITIZED) GTEST_SKIP() << "a sanitizer takes address space as it likes";
  EXPECT_EQ(wrong_in_child([] {
              long pages = 0;
              std::unique_ptr<FILE, int (*)(FILE*)> file(std::fopen("/proc/self/statm", "r"),
                                                         std::fclose);
              if (!file || std::fscanf(file.get(), "%ld", &pages) != 1) return false;
              ThreadPool pool(64);
              rlimit limit;
              getrlimit(RLIMIT_AS, &limit);
              limit.rlim_cur = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE)) + (4 << 20);
              if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
              for (int repeat = 0; repeat < 10; ++repeat)
                if (!runs_rightly(pool, 100, 64)) return false;
              return pool.started_threads() < 32;
            }),
            "");
}

TEST(DefaultPool, IsOne) {
  std::vector<std::thread> hosts;
  std::vector<ThreadPool*> pools(16);
  for (ThreadPool*& pool : pools) hosts.emplace_back([&pool] { pool = &rapt::default_pool(); });
  for (std::thread& host : hosts) host.join();
  for (const ThreadPool* pool : pools) EXPECT_EQ(pool, pools.front());
  EXPECT_EQ(rapt::default_pool().concurrency(), rapt::default_threads());
}

// Repeatedly loads, uses and unloads a plugin that contains rapt.
TEST(DefaultPool, SurvivesDlclose) {
  for (int repeat = 0; repeat < 5; ++repeat) {
    void* plugin = dlopen(RAPT_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(plugin, nullptr) << dlerror();
    const auto use = reinterpret_cast<bool (*)()>(dlsym(plugin, "use_default_pool"));
    ASSERT_NE(use, nullptr);
    EXPECT_TRUE(use());
    EXPECT_EQ(dlclose(plugin), 0);
    // Longer than a pool thread spins: if its code were unmapped, it would crash now.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace
}  // namespace threads
