// What a cache holds after appends, truncations, clears and sharing. rejected_test.cpp has what it
// rejects, cache_program_test.cpp compares random programs with a model.
#include "rapt/key_value_cache.h"

#include <gtest/gtest.h>

#include "cache/numbered_rows.h"
#include "memory/allocation_hooks.h"

namespace cache_tests {
namespace {

using Numbers = std::vector<double>;

void append_numbers(KeyValueCache& cache, int64_t sequence, const Numbers& numbers) {
  const KeyValueCacheOptions& o = cache.options();
  cache.append(sequence, rows(o.num_kv_heads, numbers, o.head_dim),
               rows(o.num_kv_heads, numbers, o.value_dim));
}

TEST(KeyValueCache, ViewsHaveTheShapesOfACall) {
  const KeyValueCache linear({.sequences = 2, .num_kv_heads = 3, .capacity = 8, .head_dim = 4});
  const CacheViews views = linear.views();
  EXPECT_EQ(rapt::to_string(views.key.dims()), "[2, 3, 8, 4]");
  EXPECT_EQ(rapt::to_string(views.value.dims()), "[2, 3, 8, 4]");
  EXPECT_TRUE(views.key.read_only && views.value.read_only && views.cache.lengths.read_only);
  EXPECT_EQ(rapt::to_string(views.cache.lengths.dims()), "[2]");
  EXPECT_FALSE(views.cache.block_table.defined() || views.cache.starts.defined());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(views.key.data) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(views.value.data) % 64, 0u);

  const KeyValueCache circular({.capacity = 8, .head_dim = 4, .end = CacheEnd::circular});
  EXPECT_TRUE(circular.views().cache.starts.defined());

  const KeyValueCache paged({.sequences = 2,
                             .num_kv_heads = 3,
                             .capacity = 9,
                             .head_dim = 4,
                             .value_dim = 5,
                             .page_keys = 4,
                             .pages = 6});
  EXPECT_EQ(rapt::to_string(paged.views().value.dims()), "[6, 3, 4, 5]");
  EXPECT_EQ(rapt::to_string(paged.views().cache.block_table.dims()), "[2, 3]");
  EXPECT_EQ(paged.views().cache.block_table.dtype, DType::i32);
  EXPECT_EQ(KeyValueCache({.head_dim = 1, .page_keys = 4, .pages = 6}).options().capacity, 24);
}

TEST(KeyValueCache, SequencesTakeDifferentNumbersOfRows) {
  KeyValueCache cache({.sequences = 3, .capacity = 4, .head_dim = 1});
  Tensor batch = filled(DType::f32, {3, 1, 2, 1}, 0);
  const float numbers[] = {1, 2, 11, 12, 21, 22};
  std::copy(numbers, numbers + 6, batch.values<float>().begin());
  cache.append(batch, batch, integers({2, 0, 1}));
  cache.append(batch, batch);
  EXPECT_EQ(keys_of(cache, 0), (Numbers{1, 2, 1, 2}));
  EXPECT_EQ(keys_of(cache, 1), (Numbers{11, 12}));
  EXPECT_EQ(keys_of(cache, 2), (Numbers{21, 21, 22}));
  EXPECT_EQ(cache.position(2), 3);

  cache.clear();
  const Tensor packed = rows(1, {5, 6, 7}, 1);
  cache.append_packed(packed, packed, integers({0, 1, 1, 3}));
  EXPECT_EQ(keys_of(cache, 0), (Numbers{5}));
  EXPECT_EQ(keys_of(cache, 1), (Numbers{}));
  EXPECT_EQ(keys_of(cache, 2), (Numbers{6, 7}));
}

TEST(KeyValueCache, CircularHoldsTheLastKeys) {
  KeyValueCache cache(
      {.num_kv_heads = 2, .capacity = 4, .head_dim = 3, .value_dim = 1, .end = CacheEnd::circular});
  append_numbers(cache, 0, {0, 1, 2});
  append_numbers(cache, 0, {3, 4, 5});
  EXPECT_EQ(keys_of(cache, 0), (Numbers{2, 3, 4, 5}));
  EXPECT_EQ(cache.length(0), 4);
  EXPECT_EQ(cache.position(0), 6);
  append_numbers(cache, 0, {6, 7, 8, 9, 10, 11, 12});  // more than the capacity
  EXPECT_EQ(keys_of(cache, 0), (Numbers{9, 10, 11, 12}));
  EXPECT_EQ(cache.position(0), 13);

  cache.truncate(0, 2);  // the newest go; what was overwritten does not come back
  EXPECT_EQ(keys_of(cache, 0), (Numbers{9, 10}));
  EXPECT_EQ(cache.position(0), 11);
  append_numbers(cache, 0, {20, 21, 22});
  EXPECT_EQ(keys_of(cache, 0), (Numbers{10, 20, 21, 22}));
  cache.clear(0);
  EXPECT_EQ(cache.position(0), 0);
  append_numbers(cache, 0, {1});
  EXPECT_EQ(keys_of(cache, 0), (Numbers{1}));
}

TEST(KeyValueCache, PagesAreTakenAndGivenBack) {
  KeyValueCache cache({.sequences = 2, .head_dim = 1, .page_keys = 2, .pages = 4});
  append_numbers(cache, 0, {1, 2, 3});
  append_numbers(cache, 1, {11});
  append_numbers(cache, 0, {4, 5});
  EXPECT_EQ(cache.pages_in_use(), 4);
  EXPECT_EQ(cache.pages_free(), 0);
  EXPECT_EQ(keys_of(cache, 0), (Numbers{1, 2, 3, 4, 5}));
  cache.truncate(0, 2);
  EXPECT_EQ(cache.pages_in_use(), 2);
  append_numbers(cache, 1, {12, 13});
  EXPECT_EQ(keys_of(cache, 0), (Numbers{1, 2}));
  EXPECT_EQ(keys_of(cache, 1), (Numbers{11, 12, 13}));
  cache.clear(1);
  EXPECT_EQ(cache.pages_in_use(), 1);
}

TEST(KeyValueCache, SharedPagesAreCopiedWhenTheyGrow) {
  KeyValueCache cache(
      {.sequences = 3, .num_kv_heads = 2, .head_dim = 2, .page_keys = 2, .pages = 6});
  append_numbers(cache, 0, {1, 2, 3});
  cache.share(0, 1, 3);
  cache.share(0, 2, 2);
  EXPECT_EQ(cache.pages_in_use(), 2);
  append_numbers(cache, 2, {30});  // behind a whole page: nothing is copied
  EXPECT_EQ(cache.pages_in_use(), 3);
  append_numbers(cache, 1, {14});  // into a page that sequence 0 holds, too
  EXPECT_EQ(cache.pages_in_use(), 4);
  append_numbers(cache, 0, {4});  // which is its own again
  EXPECT_EQ(cache.pages_in_use(), 4);
  EXPECT_EQ(keys_of(cache, 0), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(keys_of(cache, 1), (Numbers{1, 2, 3, 14}));
  EXPECT_EQ(keys_of(cache, 2), (Numbers{1, 2, 30}));
  cache.clear(0);
  EXPECT_EQ(keys_of(cache, 1), (Numbers{1, 2, 3, 14}));
  EXPECT_EQ(cache.pages_in_use(), 3);
}

// Three sequences append to one page: two copies are enough, because the last holder keeps it.
TEST(KeyValueCache, TheLastHolderOfAPageKeepsIt) {
  KeyValueCache cache({.sequences = 3, .head_dim = 1, .page_keys = 2, .pages = 3});
  append_numbers(cache, 0, {1});
  cache.share(0, 1, 1);
  cache.share(0, 2, 1);
  const Tensor batch = filled(DType::f32, {3, 1, 1, 1}, 7);
  cache.append(batch, batch);
  EXPECT_EQ(cache.pages_free(), 0);
  for (int64_t s = 0; s < 3; ++s) EXPECT_EQ(keys_of(cache, s), (Numbers{1, 7})) << s;
}

// [capacity, sequences, num_kv_heads, dim] in memory.
TEST(KeyValueCache, KeepsRowsInTheCallersMemory) {
  Tensor keys = filled(DType::f32, {4, 2, 1, 3}, -1), values = filled(DType::f32, {4, 2, 1, 3}, -1);
  const auto by_sequence = [](Tensor& t) {
    return t.view().transposed(0, 1).transposed(1, 2);  // [sequences, num_kv_heads, capacity, dim]
  };
  KeyValueCache cache({.sequences = 2, .capacity = 4, .head_dim = 3}, by_sequence(keys),
                      by_sequence(values));
  append_numbers(cache, 1, {5, 6});
  EXPECT_EQ(get(keys, Dims{0, 1, 0, 2}), 5);
  EXPECT_EQ(get(values, Dims{1, 1, 0, 0}), 6);
  EXPECT_EQ(get(keys, Dims{2, 1, 0, 0}), -1);
  EXPECT_EQ(get(keys, Dims{0, 0, 0, 0}), -1);
}

TEST(KeyValueCache, ViewsShowLaterChangesAlsoAfterAMove) {
  KeyValueCache cache({.capacity = 4, .head_dim = 1});
  const CacheViews views = cache.views();
  append_numbers(cache, 0, {1, 2});
  KeyValueCache moved = std::move(cache);
  append_numbers(moved, 0, {3});
  EXPECT_EQ(*static_cast<const int64_t*>(views.cache.lengths.data), 3);
  EXPECT_EQ(get(views.key, Dims{0, 0, 2, 0}), 3);
}

TEST(KeyValueCache, NoStepAllocates) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  KeyValueCache cache({.sequences = 2, .head_dim = 4, .page_keys = 2, .pages = 8});
  const Tensor batch = filled(DType::f32, {2, 1, 3, 4}, 1), row = filled(DType::f32, {1, 1, 4}, 2);
  const Tensor counts = integers({3, 1}), starts = integers({0, 0, 1});
  laws::start_counting();
  for (int step = 0; step < 100; ++step) {
    cache.append(batch, batch, counts);
    cache.append(1, row, row);
    cache.append_packed(row, row, starts);
    cache.truncate(0, 1);
    cache.clear(1);
    cache.share(0, 1, 1);
    cache.append(0, row, row);
    if (cache.views().cache.block_table.data == nullptr) break;
    cache.clear();
  }
  EXPECT_EQ(laws::stop_counting().made, 0);
}

}  // namespace
}  // namespace cache_tests
