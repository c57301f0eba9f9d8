// The pool in a host with OpenMP threads. Each of them calls run() in a parallel region; the pool
// adds no helper while every CPU has an OpenMP thread.
#include <gtest/gtest.h>
#include <omp.h>

#include "threads/jobs.h"

namespace threads {
namespace {

TEST(InOpenMp, EveryThreadCallsRun) {
  for (const int callers : {1, 2, 4, 16}) {
    rapt::ThreadPool pool(4);
    std::atomic<int> wrong{0};
#pragma omp parallel for num_threads(callers) schedule(dynamic)
    for (int i = 0; i < 400; ++i) wrong += !runs_rightly(pool, 1 + i % 7, 4);
    EXPECT_EQ(wrong, 0) << callers << " callers";
  }
}

// A task of the pool opens a parallel region whose threads call run() again.
TEST(InOpenMp, RegionsWithinTasks) {
  struct Region {
    rapt::ThreadPool pool{3};
    std::atomic<int> wrong{0};
    static void task(void* argument, int64_t, int) noexcept {
      auto& self = *static_cast<Region*>(argument);
#pragma omp parallel for num_threads(2)
      for (int i = 0; i < 8; ++i) self.wrong += !runs_rightly(self.pool, 5, 3);
    }
  } region;
  region.pool.run(9, Region::task, &region);
  EXPECT_EQ(region.wrong, 0);
}

}  // namespace
}  // namespace threads
