// Threads, forks, cancellation, progress, and executors that fail.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "rapt/mask/causal.h"
#include "support/call.h"
#include "support/executors.h"

namespace laws {
namespace {

// The first test of the file, so that many threads initialise whatever the first call initialises.
TEST(Concurrency, ManyHostThreads) {
  const Case c(parse_descriptor("h2q150k150d24:mask=causal"));
  constexpr int kThreads = 12;
  std::vector<AttentionResult> results(kThreads);
  std::vector<std::thread> pool;
  for (int i = 0; i < kThreads; ++i)
    pool.emplace_back([&c, &result = results[static_cast<size_t>(i)], i] {
      Threads threads(3);
      Context context;
      if (i % 3 == 0) context.executor = &threads;
      for (int repeat = 0; repeat < 3; ++repeat) {
        AttentionOptions options = c.options;
        options.weights.emplace();
        result = scaled_dot_product_attention(c.query, c.key, c.value, options, context);
      }
    });
  for (std::thread& thread : pool) thread.join();
  for (const AttentionResult& result : results) EXPECT_TRUE(same_results(result, results.front()));
}

// OpenBLAS #240, PyTorch #17199: fork after a threaded call deadlocked the child.
TEST(Concurrency, reg_fork_after_use) {
  const Case c([] {
    Descriptor p;
    p.q_len = p.k_len = 80;
    p.head_dim = p.value_dim = 16;
    return p;
  }());
  Threads threads(4);
  Context context;
  context.executor = &threads;
  const AttentionResult expected = attend(c, context);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(60);  // a deadlock ends as a signal
    _exit(same_results(attend(c, context), expected) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "the child was ended by signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// A mask that cancels the call at its `at`-th question and counts later questions.
class CancellingMask final : public rapt::Mask {
 public:
  CancellingMask(rapt::CancelToken& token, int at) : token_(token), at_(at) {}
  int asked() const { return asked_; }

  const rapt::Declaration& declaration() const noexcept override {
    static constexpr rapt::Declaration kOwn = {"cancelling", "cancels the call", "none", {}};
    return kOwn;
  }
  void check(Shape, int64_t, int64_t) const override {}
  void bind(const rapt::Head&, rapt::BoundMask*) const noexcept override {}
  rapt::KeyRange key_range(const rapt::BoundMask& bound, rapt::Positions) const noexcept override {
    return {0, bound.k_len};
  }
  rapt::Cover cover(const rapt::BoundMask&, rapt::Positions,
                    rapt::Positions) const noexcept override {
    if (++asked_ == at_) token_.cancel();
    return rapt::Cover::all;
  }
  void exclude(const rapt::BoundMask&, rapt::Positions, rapt::Positions,
               uint64_t*) const noexcept override {}

 private:
  rapt::CancelToken& token_;
  int at_;
  mutable std::atomic<int> asked_{0};
};

// Cancellation is noticed per tile: some tiles after it the call is over, out of hundreds.
TEST(Concurrency, CancellationIsSeenPerTile) {
  const Tensor x = filled(DType::f32, {2000, 8}, 1);
  for (const int at : {1, 10, 100}) {
    rapt::CancelToken token;
    const CancellingMask mask(token, at);
    const rapt::Mask* masks[] = {&mask};
    AttentionOptions options;
    options.masks = masks;
    Context context;
    context.cancel = &token;
    try {
      scaled_dot_product_attention(x, x, x, options, context);
      ADD_FAILURE() << "not cancelled";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::cancelled);
    }
    EXPECT_GE(mask.asked(), at);
    // A kernel may ask about the blocks of one tile of queries ahead of computing them.
    EXPECT_LE(mask.asked(), at + 40);
  }
}

TEST(Concurrency, CancelledFromAnotherThread) {
  const Tensor x = filled(DType::f32, {8, 8192, 64}, 1);
  rapt::CancelToken token;
  Context context;
  context.cancel = &token;
  using Clock = std::chrono::steady_clock;
  Clock::time_point cancelled_at;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    cancelled_at = Clock::now();
    token.cancel();
  });
  int code = -1;
  try {
    scaled_dot_product_attention(x, x, x, {}, context);
  } catch (const rapt::Error& error) {
    code = static_cast<int>(error.code());
  }
  const auto returned_at = Clock::now();
  canceller.join();
  EXPECT_EQ(code, static_cast<int>(rapt::ErrorCode::cancelled));
  // 50 ms on a quiet machine; the whole call takes seconds. Twenty times that for a busy one.
  EXPECT_LT(returned_at - cancelled_at, std::chrono::seconds(1));
}

TEST(Concurrency, CancelledBeforeTheCall) {
  rapt::CancelToken token;
  token.cancel();
  Context context;
  context.cancel = &token;
  for (const int64_t queries : {20, 0}) {
    const Tensor x = filled(DType::f32, {queries, 8}, 1);
    try {
      scaled_dot_product_attention(x, x, x, {}, context);
      ADD_FAILURE() << "not cancelled: " << queries << " queries";
    } catch (const rapt::Error& error) {
      EXPECT_EQ(error.code(), rapt::ErrorCode::cancelled);
    }
  }
}

TEST(Concurrency, ExceptionsOfTheExecutorPassThrough) {
  const Tensor x = filled(DType::f32, {2, 1200, 8}, 1);  // enough work to be given to the executor
  for (const int64_t good : {0, 1, 3}) {
    Throwing pool(good);
    Context context;
    context.executor = &pool;
    EXPECT_THROW(scaled_dot_product_attention(x, x, x, {}, context), std::runtime_error);
  }
  EXPECT_NO_THROW(scaled_dot_product_attention(x, x, x));
}

struct Reports {
  std::vector<double> fractions;
  std::atomic<int> inside{0};
  bool together = false;

  static void report(void* user, double fraction) {
    auto* self = static_cast<Reports*>(user);
    if (self->inside.fetch_add(1) != 0) self->together = true;
    self->fractions.push_back(fraction);
    self->inside.fetch_sub(1);
  }
};

TEST(Concurrency, ProgressRisesToOne) {
  for (const bool weights : {false, true})
    for (const int threads_count : {1, 4}) {
      const Tensor x = filled(DType::f32, {3, 300, 8}, 1);
      Threads threads(threads_count);
      Reports reports;
      Context context;
      context.executor = &threads;
      context.progress = {&Reports::report, &reports};
      AttentionOptions options;
      if (weights) options.weights.emplace();
      scaled_dot_product_attention(x, x, x, options, context);
      ASSERT_FALSE(reports.fractions.empty());
      EXPECT_FALSE(reports.together);
      EXPECT_EQ(reports.fractions.back(), 1);
      for (size_t i = 0; i < reports.fractions.size(); ++i) {
        EXPECT_GE(reports.fractions[i], i == 0 ? 0 : reports.fractions[i - 1]);
        EXPECT_LE(reports.fractions[i], 1);
      }
    }
}

// The executor runs every task exactly once; rapt must give every worker its own scratch.
TEST(Concurrency, MoreWorkersThanTasks) {
  Descriptor p;
  p.q_len = 3;
  p.k_len = 40;
  p.head_dim = p.value_dim = 8;
  const Case c(p);
  Threads many(64);
  Context context;
  context.executor = &many;
  EXPECT_TRUE(same_results(attend(c, context), attend(c)));
}

}  // namespace
}  // namespace laws
