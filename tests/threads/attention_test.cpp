// Attention on the pool: the same bits with any number of threads, from any number of hosts.
#include <gtest/gtest.h>

#include <vector>

#include "laws/call.h"
#include "rapt/thread_pool.h"
#include "threads/jobs.h"

namespace threads {
namespace {

laws::Problem problem() {
  laws::Problem p;
  p.q_len = 700, p.k_len = 300;
  p.head_dim = p.value_dim = 16;
  p.leading = p.query.leading = p.key.leading = p.value.leading = {3};
  p.masks.emplace_back();
  return p;
}

rapt::AttentionResult attend(const laws::Case& c, rapt::ThreadPool& pool) {
  rapt::Context context;
  context.executor = &pool;
  return laws::attend(c, context);
}

// One thread, without a pool.
rapt::AttentionResult attend_alone(const laws::Case& c) {
  rapt::ThreadPool alone(1);
  return attend(c, alone);
}

TEST(AttentionOnThePool, SameBitsForOneTo64Threads) {
  const laws::Case c(problem());
  const rapt::AttentionResult expected = attend_alone(c);
  for (int threads = 1; threads <= 64; ++threads) {
    rapt::ThreadPool pool(threads);
    EXPECT_TRUE(laws::same_results(attend(c, pool), expected)) << threads << " threads";
  }
}

TEST(AttentionOnThePool, ManyHosts) {
  const laws::Case c(problem());
  const rapt::AttentionResult expected = attend_alone(c);
  rapt::ThreadPool pool(4);
  std::vector<rapt::AttentionResult> results(10);
  std::vector<std::thread> hosts;
  for (rapt::AttentionResult& result : results)
    hosts.emplace_back([&] {
      for (int repeat = 0; repeat < 3; ++repeat) result = attend(c, pool);
    });
  for (std::thread& host : hosts) host.join();
  for (const rapt::AttentionResult& result : results)
    EXPECT_TRUE(laws::same_results(result, expected));
}

TEST(AttentionOnThePool, InATaskOfThePool) {
  const laws::Case c(problem());
  const rapt::AttentionResult expected = attend_alone(c);
  struct Calls {
    const laws::Case& c;
    rapt::ThreadPool pool{3};
    std::vector<rapt::AttentionResult> results = std::vector<rapt::AttentionResult>(6);
    static void task(void* argument, int64_t task, int) noexcept {
      auto& self = *static_cast<Calls*>(argument);
      self.results[static_cast<size_t>(task)] = attend(self.c, self.pool);
    }
  } calls{c};
  calls.pool.run(6, Calls::task, &calls);
  for (const rapt::AttentionResult& result : calls.results)
    EXPECT_TRUE(laws::same_results(result, expected));
}

}  // namespace
}  // namespace threads
