// Several threads call attention and plan() on one KeyValueCache that nobody writes. Each gets the
// bits and the plan of a single-threaded call. Under the thread sanitizer, a write of the cache's
// memory, or of memory that calls share, is an error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <latch>
#include <thread>
#include <vector>

#include "rapt/key_value_cache.h"
#include "rapt/mask/causal.h"
#include "rapt/thread_pool.h"
#include "threads/same_bits.h"

namespace threads {
namespace {

using rapt::KeyValueCache;
using rapt::KeyValueCacheOptions;
using rapt::Tensor;

// So much work that a pool's threads share a call with one query per head.
constexpr int64_t kSequences = 3, kKeyHeads = 2, kHeads = 8, kDim = 64;
// One sequence has more keys than a chunk, which is 1,024, so that several threads share its keys.
constexpr int64_t kMostRows = 1300;
constexpr int64_t kCounts[kSequences] = {kMostRows, 0, 77};

Tensor waves(std::initializer_list<int64_t> dims, float phase) {
  Tensor tensor(rapt::DType::f32, dims);
  for (float& element : tensor.values<float>()) element = std::sin(phase += 1);
  return tensor;
}

KeyValueCache filled_cache(const KeyValueCacheOptions& options) {
  KeyValueCache cache(options);
  const Tensor keys = waves({kSequences, kKeyHeads, kMostRows, kDim}, 0);
  const Tensor values = waves({kSequences, kKeyHeads, kMostRows, kDim}, 0.5f);
  Tensor counts(rapt::DType::i64, {kSequences});
  std::copy_n(kCounts, kSequences, counts.values<int64_t>().begin());
  cache.append(keys, values, counts);
  if (options.page_keys > 0) cache.share(0, 1, 1150);  // two sequences read the same pages
  return cache;
}

// One query per head, and a few.
class CachedQueries {
 public:
  explicit CachedQueries(const KeyValueCache& cache) : cache_(cache) {}

  rapt::AttentionResult attend(size_t i, const rapt::Context& context) const {
    const rapt::CacheViews views = cache_.views();
    return rapt::scaled_dot_product_attention(queries_[i], views.key, views.value, options(views),
                                              context);
  }
  rapt::Plan plan(size_t i, const rapt::Context& context) const {
    const rapt::CacheViews views = cache_.views();
    return rapt::plan(queries_[i], views.key, views.value, options(views), context);
  }
  size_t count() const { return queries_.size(); }

 private:
  rapt::AttentionOptions options(const rapt::CacheViews& views) const {
    return {.masks = {&causal_}, .cache = views.cache};
  }

  const KeyValueCache& cache_;
  const rapt::Causal causal_{rapt::Anchor::bottom_right};
  const std::vector<Tensor> queries_ = [] {
    std::vector<Tensor> queries;
    for (const int64_t q_len : {1, 9})
      queries.push_back(waves({kSequences, kHeads, q_len, kDim}, 7));
    return queries;
  }();
};

bool same_plan(const rapt::Plan& a, const rapt::Plan& b) {
  return a.threads == b.threads && a.tiles_computed == b.tiles_computed &&
         a.tiles_partial == b.tiles_partial && a.tiles_skipped == b.tiles_skipped &&
         a.allowed_scores == b.allowed_scores && a.workspace_bytes == b.workspace_bytes &&
         a.group_heads == b.group_heads;
}

// Some hosts share a pool, others call on their own thread alone.
void expect_same_on_all_threads(const KeyValueCacheOptions& options) {
  const KeyValueCache cache = filled_cache(options);
  const CachedQueries queries(cache);
  rapt::ThreadPool alone(1), shared(4);
  rapt::Context on_one, on_pool;
  on_one.executor = &alone, on_pool.executor = &shared;
  std::vector<rapt::AttentionResult> expected;
  std::vector<rapt::Plan> plans_of_one, plans_of_pool;
  for (size_t i = 0; i < queries.count(); ++i) {
    expected.push_back(queries.attend(i, on_one));
    plans_of_one.push_back(queries.plan(i, on_one));
    plans_of_pool.push_back(queries.plan(i, on_pool));
  }
  ASSERT_GT(plans_of_pool[0].threads, 1);

  constexpr int kHosts = 4, kRepeats = 2;
  std::vector<int> wrong(kHosts, 0);
  std::latch start(kHosts);
  std::vector<std::thread> hosts;
  for (int host = 0; host < kHosts; ++host)
    hosts.emplace_back([&, host] {
      const bool pooled = host % 2 == 0;
      const rapt::Context& context = pooled ? on_pool : on_one;
      int& mine = wrong[static_cast<size_t>(host)];
      start.arrive_and_wait();
      for (int repeat = 0; repeat < kRepeats; ++repeat)
        for (size_t i = 0; i < queries.count(); ++i) {
          mine += !same_plan(queries.plan(i, context), (pooled ? plans_of_pool : plans_of_one)[i]);
          mine += !same_bits(queries.attend(i, context), expected[i]);
          mine += cache.length(2) != kCounts[2];
        }
    });
  for (std::thread& host : hosts) host.join();
  for (int host = 0; host < kHosts; ++host)
    EXPECT_EQ(wrong[static_cast<size_t>(host)], 0) << "host " << host;
}

KeyValueCacheOptions sized(int64_t capacity) {
  return {
      .sequences = kSequences, .num_kv_heads = kKeyHeads, .capacity = capacity, .head_dim = kDim};
}

TEST(CachedCallsOfManyThreads, Linear) { expect_same_on_all_threads(sized(1400)); }

TEST(CachedCallsOfManyThreads, Circular) {
  KeyValueCacheOptions options = sized(1200);  // the oldest keys are overwritten
  options.end = rapt::CacheEnd::circular;
  expect_same_on_all_threads(options);
}

TEST(CachedCallsOfManyThreads, InPages) {
  KeyValueCacheOptions options = sized(0);
  options.page_keys = 16;
  options.pages = 100;
  expect_same_on_all_threads(options);
}

}  // namespace
}  // namespace threads
