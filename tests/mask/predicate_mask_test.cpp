// Masks of functions: the bits of a matrix of the same pairs, how often the function is called, and
// what stops or rejects it.
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <vector>

#include "rapt/mask/boolean.h"
#include "rapt/mask/causal.h"
#include "rapt/predicate_mask.h"
#include "rapt/thread_pool.h"
#include "support/call.h"
#include "support/expect_error.h"

namespace laws {
namespace {

using rapt::ErrorCode;
using rapt::PredicateMask;

AttentionResult attended_by_predicate(const rapt::Mask& mask, int64_t q_len, int64_t k_len) {
  Random random(base_seed());
  const Tensor query = random_normal(random, DType::f32, {2, 3, q_len, 8});
  const Tensor key = random_normal(random, DType::f32, {2, 3, k_len, 8});
  AttentionOptions options;
  options.masks = {&mask};
  return scaled_dot_product_attention(query, key, key, options);
}

TEST(PredicateMask, BitsOfItsPairs) {
  Random random(base_seed());
  for (int n = 0; n < problem_count(20) && !HasFailure(); ++n) {
    const int64_t q_len = random.between(1, 300), k_len = random.between(1, 300);
    const int64_t heads = random.pick({1, 3});
    const bool* at = nullptr;
    Tensor pairs(DType::boolean, {heads, q_len, k_len});
    for_each_index(pairs.dims(), [&](auto index) {
      const int64_t kind = (index[1] / 80 + index[2] / 50 + index[0]) % 3;
      set(pairs, index, kind == 0 || (kind == 1 && random.chance(0.5)));
    });
    at = pairs.values<bool>().data();
    const PredicateMask mask(
        [=](int64_t i, int64_t j, int64_t head) { return at[(head * q_len + i) * k_len + j]; },
        {.q_len = q_len, .k_len = k_len, .heads = heads});
    const rapt::Boolean same(pairs);
    EXPECT_TRUE(same_results(attended_by_predicate(mask, q_len, k_len),
                             attended_by_predicate(same, q_len, k_len)));
  }
}

TEST(PredicateMask, EvaluatesEachPairOnceAndNeverAgain) {
  std::atomic<int64_t> calls{0};
  const auto causal = [&](int64_t i, int64_t j, int64_t) {
    ++calls;
    return j <= i;
  };
  const PredicateMask mask(causal, {.q_len = 200, .k_len = 130});
  EXPECT_EQ(calls, 200 * 130);
  EXPECT_TRUE(same_results(attended_by_predicate(mask, 200, 130),
                           attended_by_predicate(rapt::Causal(), 200, 130)));
  EXPECT_EQ(calls, 200 * 130);
  const PredicateMask checked(causal, {.q_len = 200, .k_len = 130, .twice = true});
  EXPECT_EQ(calls, 3 * 200 * 130);
}

TEST(PredicateMask, CountsOfThePlan) {
  const int64_t n = 1000;
  const PredicateMask mask([](int64_t i, int64_t j, int64_t) { return j <= i; },
                           {.q_len = n, .k_len = n});
  const Tensor x(DType::f32, {1, n, 8});
  const auto plan_of = [&](const rapt::Mask& m) {
    AttentionOptions options;
    options.masks = {&m};
    return rapt::plan(x, x, x, options);
  };
  const rapt::Plan got = plan_of(mask), expected = plan_of(rapt::Causal());
  EXPECT_EQ(got.allowed_scores, expected.allowed_scores);
  EXPECT_EQ(got.tiles_skipped, expected.tiles_skipped);
  EXPECT_EQ(got.tiles_computed, expected.tiles_computed);
}

TEST(PredicateMask, EmptySizes) {
  const auto never = [](int64_t, int64_t, int64_t) -> bool { throw std::logic_error("called"); };
  for (const rapt::PredicateSizes sizes : {rapt::PredicateSizes{.q_len = 0, .k_len = 5},
                                           rapt::PredicateSizes{.q_len = 5, .k_len = 0}}) {
    const PredicateMask mask(never, sizes);
    EXPECT_TRUE(same_results(attended_by_predicate(mask, sizes.q_len, sizes.k_len),
                             attended_by_predicate(rapt::Causal(), sizes.q_len, sizes.k_len)));
  }
}

// If several pairs throw, the error names the first row of queries, for any number of threads.
TEST(PredicateMask, AFunctionThatThrows) {
  for (const int threads : {1, 0}) {
    Context context;
    context.threads = threads;
    expect_error(ErrorCode::argument, {"query 100, key 7, head 1", "no such pair"}, [&] {
      PredicateMask(
          [](int64_t i, int64_t j, int64_t head) {
            if (head == 1 && i >= 100 && j == 7) throw std::runtime_error("no such pair");
            return true;
          },
          {.q_len = 500, .k_len = 400, .heads = 2}, context);
    });
  }
  expect_error(ErrorCode::argument, {"query 0, key 3", "type of its own"}, [] {
    PredicateMask(
        [](int64_t, int64_t j, int64_t) {
          if (j == 3) throw 4;
          return true;
        },
        {.q_len = 8, .k_len = 8});
  });
}

TEST(PredicateMask, AFunctionThatDiffers) {
  std::atomic<int64_t> calls{0};
  const auto second = [&](int64_t i, int64_t j, int64_t) {
    return i != 70 || j != 129 || calls++ == 0;
  };
  expect_error(ErrorCode::argument, {"differently", "query 70, key 129, head 0"},
               [&] { PredicateMask(second, {.q_len = 100, .k_len = 200, .twice = true}); });
}

// The lengths are those of all sequences together, the positions those within a sequence.
TEST(PredicateMask, PackedSequences) {
  Random random(base_seed());
  const Tensor x = random_normal(random, DType::f32, {2, 300, 8});
  int64_t begins[] = {0, 170, 170, 300};
  const auto attended = [&](const rapt::Mask& mask) {
    AttentionOptions options;
    options.masks = {&mask};
    options.packed.query_starts = rapt::TensorView(begins, {4});
    return scaled_dot_product_attention(x, x, x, options);
  };
  const PredicateMask mask([](int64_t i, int64_t j, int64_t) { return j <= i; },
                           {.q_len = 300, .k_len = 300});
  EXPECT_TRUE(same_results(attended(mask), attended(rapt::Causal())));
}

TEST(PredicateMask, ProgressAndCancellation) {
  double last = 0;
  Context context;
  context.progress.user = &last;
  context.progress.report = [](void* user, double fraction) {
    EXPECT_GT(fraction, *static_cast<double*>(user));
    *static_cast<double*>(user) = fraction;
  };
  rapt::CancelToken cancel;
  context.cancel = &cancel;
  const PredicateMask whole([](int64_t, int64_t, int64_t) { return true; },
                            {.q_len = 300, .k_len = 300}, context);
  EXPECT_EQ(last, 1);
  context.progress = {};
  expect_error(ErrorCode::cancelled, {"cancelled"}, [&] {
    PredicateMask(
        [&](int64_t i, int64_t, int64_t) {
          if (i == 70) cancel.cancel();
          return true;
        },
        {.q_len = 300, .k_len = 300}, context);
  });
}

TEST(PredicateMask, Rejections) {
  const auto all = [](int64_t, int64_t, int64_t) { return true; };
  expect_error(ErrorCode::argument, {"q_len = -1"},
               [&] { PredicateMask(all, {.q_len = -1, .k_len = 2}); });
  expect_error(ErrorCode::overflow, {"below 2^63"},
               [&] { PredicateMask(all, {.q_len = int64_t{1} << 40, .k_len = int64_t{1} << 40}); });
  const int64_t most = int64_t{1} << 62;
  expect_error(ErrorCode::overflow, {"rows of 64 queries"},
               [&] { PredicateMask(all, {.q_len = 1, .k_len = 1, .heads = most}); });
  PredicateMask(all, {.q_len = most, .k_len = 0, .heads = most});  // no pair, and no row
  const PredicateMask mask(all, {.q_len = 4, .k_len = 6, .heads = 3});
  mask.check(Dims{2, 3}, 4, 6);
  expect_error(ErrorCode::shape, {"4 queries, 6 keys", "5 queries"}, [&] {
    mask.check(Dims{2, 3}, 5, 6);
  });
  expect_error(ErrorCode::shape, {"6 keys"}, [&] { mask.check(Dims{2, 3}, 4, 7); });
  expect_error(ErrorCode::shape, {"3 heads", "[3, 2]"}, [&] { mask.check(Dims{3, 2}, 4, 6); });
  expect_error(ErrorCode::shape, {"3 heads"}, [&] { mask.check({}, 4, 6); });
}

}  // namespace
}  // namespace laws
