// Attention on the pool gives the same bits with any number of threads and of host threads.
#include "rapt/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "rapt/mask/causal.h"
#include "rapt/thread_pool.h"
#include "threads/jobs.h"
#include "threads/same_bits.h"

namespace threads {
namespace {

using rapt::AttentionResult;

// A causal problem with a few tasks per head and more than one key block.
class Input {
 public:
  Input() : x_(rapt::DType::f32, {3, 700, 16}) {
    float i = 0;
    for (float& element : x_.values<float>()) element = std::sin(++i);
  }
  AttentionResult attend(rapt::Executor& executor) const {
    rapt::Context context;
    context.executor = &executor;
    return rapt::scaled_dot_product_attention(x_, x_, x_, {.masks = {&causal_}}, context);
  }
  // Runs on the pool of the process.
  AttentionResult attend(int threads) const {
    rapt::Context context;
    context.threads = threads;
    return rapt::scaled_dot_product_attention(x_, x_, x_, {.masks = {&causal_}}, context);
  }
  AttentionResult attend_alone() const {
    rapt::ThreadPool alone(1);
    return attend(alone);
  }

 private:
  rapt::Tensor x_;  // [heads, length, head_dim]; query, key and value
  rapt::Causal causal_;
};

TEST(AttentionOnThePool, SameBitsForOneTo64Threads) {
  const Input input;
  const AttentionResult expected = input.attend_alone();
  for (int threads = 1; threads <= 64; ++threads) {
    rapt::ThreadPool pool(threads);
    EXPECT_TRUE(same_bits(input.attend(pool), expected)) << threads << " threads";
  }
}

TEST(AttentionOnThePool, ManyHosts) {
  const Input input;
  const AttentionResult expected = input.attend_alone();
  rapt::ThreadPool pool(4);
  std::vector<AttentionResult> results(10);
  std::vector<std::thread> hosts;
  for (AttentionResult& result : results)
    hosts.emplace_back([&] {
      for (int repeat = 0; repeat < 3; ++repeat) result = input.attend(pool);
    });
  for (std::thread& host : hosts) host.join();
  for (const AttentionResult& result : results) EXPECT_TRUE(same_bits(result, expected));
}

TEST(AttentionOnThePool, InATaskOfThePool) {
  const Input input;
  const AttentionResult expected = input.attend_alone();
  struct Calls {
    const Input& input;
    rapt::ThreadPool pool{3};
    std::vector<AttentionResult> results = std::vector<AttentionResult>(6);
    static void task(void* argument, int64_t task, int) noexcept {
      auto& self = *static_cast<Calls*>(argument);
      self.results[static_cast<size_t>(task)] = self.input.attend(self.pool);
    }
  } calls{input};
  calls.pool.run(6, Calls::task, &calls);
  for (const AttentionResult& result : calls.results) EXPECT_TRUE(same_bits(result, expected));
}

TEST(AttentionOnThePool, OfTheProcess) {
  const Input input;
  const AttentionResult expected = input.attend_alone();
  for (int threads = 0; threads <= 64; ++threads)
    EXPECT_TRUE(same_bits(input.attend(threads), expected)) << threads << " threads";
}

#if !defined(__SANITIZE_THREAD__)  // see lifecycle_test.cpp
TEST(AttentionOnThePool, InChildren) {
  const Input input;
  const AttentionResult expected = input.attend_alone();
  const auto right = [&] { return same_bits(input.attend(0), expected); };
  EXPECT_EQ(wrong_in_child(right), "");
  EXPECT_TRUE(right());
  EXPECT_EQ(wrong_in_child(right), "");
  EXPECT_TRUE(right());
}
#endif

}  // namespace
}  // namespace threads
