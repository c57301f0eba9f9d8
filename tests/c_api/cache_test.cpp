// Caches by the C interface: each kind with appends, truncation, sharing and a call that reads it;
// and mistakes.
#include <gtest/gtest.h>

#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "described_tensors.h"
#include "rapt/attention.h"
#include "rapt/cache.h"
#include "rapt/key_value_cache.h"
#include "rapt/rapt_cache_c.h"

namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 8;

rapt_cache_options cache_options() {
  rapt_cache_options options = {};
  options.size = sizeof options;
  options.sequences = 2;
  options.num_kv_heads = kKvHeads;
  options.capacity = 6;
  options.head_dim = kDim;
  options.dtype = RAPT_F32;
  return options;
}
rapt_cache_options with_pages() {
  rapt_cache_options options = cache_options();
  options.page_keys = 2;
  options.pages = 5;
  return options;
}
rapt_cache_options circular() {
  rapt_cache_options options = cache_options();
  options.end = RAPT_CACHE_CIRCULAR;
  return options;
}

// A cache that is destroyed at the end of its block.
struct Cache {
  rapt_cache* made = nullptr;
  explicit Cache(const rapt_cache_options& options) {
    EXPECT_EQ(rapt_cache_create(&options, nullptr, nullptr, &made), RAPT_OK) << rapt_last_error();
  }
  Cache(const Cache&) = delete;
  ~Cache() { rapt_cache_destroy(made); }

  int64_t length(int64_t sequence) const {
    int64_t length = -1;
    EXPECT_EQ(rapt_cache_length(made, sequence, &length), RAPT_OK) << rapt_last_error();
    return length;
  }
  int64_t position(int64_t sequence) const {
    int64_t position = -1;
    EXPECT_EQ(rapt_cache_position(made, sequence, &position), RAPT_OK) << rapt_last_error();
    return position;
  }
};

// Whether the last call failed with this status and these words.
bool refused(rapt_status got, rapt_status status, const char* words) {
  return got == status && std::string(rapt_last_error()).find(words) != std::string::npos;
}

// The C functions and KeyValueCache make the same changes, and calls on both have the same bits.
TEST(CApiCache, EveryKindHasTheBitsOfTheCppCache) {
  const Tensor batch = numbers(DType::f32, {2, kKvHeads, 3, kDim}, 1);
  const Tensor rows = numbers(DType::f32, {kKvHeads, 2, kDim}, 2);
  const Tensor query = numbers(DType::f32, {2, kHeads, 1, kDim}, 3);
  const Tensor counts = integers({3, 1}), starts = integers({0, 2, 2});
  const rapt_tensor b = c_view(batch), r = c_view(rows), q = c_view(query), n = c_view(counts),
                    p = c_view(starts);
  for (const rapt_cache_options& options : {cache_options(), circular(), with_pages()}) {
    const Cache cache(options);
    ASSERT_EQ(rapt_cache_append(cache.made, &b, &b, &n), RAPT_OK) << rapt_last_error();
    ASSERT_EQ(rapt_cache_append_to(cache.made, 1, &r, &r), RAPT_OK) << rapt_last_error();
    ASSERT_EQ(rapt_cache_append_packed(cache.made, &r, &r, &p), RAPT_OK) << rapt_last_error();
    ASSERT_EQ(rapt_cache_truncate(cache.made, 0, 4), RAPT_OK) << rapt_last_error();

    rapt::KeyValueCache expected({.sequences = 2,
                                  .num_kv_heads = kKvHeads,
                                  .capacity = options.capacity,
                                  .head_dim = kDim,
                                  .end = options.end == RAPT_CACHE_CIRCULAR
                                             ? rapt::CacheEnd::circular
                                             : rapt::CacheEnd::linear,
                                  .page_keys = options.page_keys,
                                  .pages = options.pages});
    expected.append(batch, batch, counts);
    expected.append(1, rows, rows);
    expected.append_packed(rows, rows, starts);
    expected.truncate(0, 4);
    for (int64_t s = 0; s < 2; ++s) {
      EXPECT_EQ(cache.length(s), expected.length(s));
      EXPECT_EQ(cache.position(s), expected.position(s));
    }

    Tensor output(DType::f32, {2, kHeads, 1, kDim});
    const rapt_tensor y = c_view(output.view());
    rapt_results results = {};
    results.size = sizeof results;
    results.output = &y;
    rapt_options call = no_options();
    const rapt_tensor *key = nullptr, *value = nullptr;
    ASSERT_EQ(rapt_cache_inputs(cache.made, &call, &key, &value), RAPT_OK) << rapt_last_error();
    ASSERT_EQ(rapt_attention_forward(&q, key, value, &call, &results, nullptr, 0, nullptr), RAPT_OK)
        << rapt_last_error();
    const rapt::CacheViews views = expected.views();
    const rapt::AttentionResult result =
        rapt::scaled_dot_product_attention(query, views.key, views.value, {.cache = views.cache});
    expect_same_bits(output, result.output, "output");
  }
}

// Sums of received attention over two calls. Columns beyond a length keep what they hold.
TEST(CApiCache, ReceivedIsAdded) {
  const Tensor batch = numbers(DType::f32, {2, kKvHeads, 3, kDim}, 1);
  const Tensor query = numbers(DType::f32, {2, kHeads, 1, kDim}, 3);
  const Tensor counts = integers({3, 1});
  const rapt_tensor b = c_view(batch), q = c_view(query), n = c_view(counts);
  const Cache cache(cache_options());
  ASSERT_EQ(rapt_cache_append(cache.made, &b, &b, &n), RAPT_OK) << rapt_last_error();

  Tensor output(DType::f32, {2, kHeads, 1, kDim}), sums(DType::f32, {2, kHeads, 6});
  const rapt_tensor y = c_view(output.view()), s = c_view(sums.view());
  rapt_results results = {};
  results.size = sizeof results;
  results.output = &y;
  results.received = &s;
  rapt_options call = no_options();
  call.received = 1;
  const rapt_tensor *key = nullptr, *value = nullptr;
  ASSERT_EQ(rapt_cache_inputs(cache.made, &call, &key, &value), RAPT_OK) << rapt_last_error();
  ASSERT_EQ(rapt_attention_forward(&q, key, value, &call, &results, nullptr, 0, nullptr), RAPT_OK)
      << rapt_last_error();
  const Tensor once = Tensor::copy_of(sums);
  float* const beyond = &sums.values<float>().back();  // of a sequence with one key
  EXPECT_EQ(*beyond, 0);
  *beyond = 7;
  call.add_received = 1;
  ASSERT_EQ(rapt_attention_forward(&q, key, value, &call, &results, nullptr, 0, nullptr), RAPT_OK)
      << rapt_last_error();
  EXPECT_EQ(*beyond, 7);
  // A head of one query gives its keys weights whose sum is 1; the one key of sequence 1 gets 1.
  EXPECT_FLOAT_EQ(sums.values<float>()[kHeads * 6], 2);
  const std::span<const float> first = once.values<float>(), both = sums.values<float>();
  for (size_t i = 0; i + 1 < both.size(); ++i) EXPECT_FLOAT_EQ(both[i], 2 * first[i]) << i;

  call.reserved_at_end = 1;
  EXPECT_TRUE(refused(rapt_attention_forward(&q, key, value, &call, &results, nullptr, 0, nullptr),
                      RAPT_ERROR_ARGUMENT, "reserved"));
}

TEST(CApiCache, PagesAreShared) {
  const Tensor rows = numbers(DType::f32, {kKvHeads, 3, kDim}, 1);
  const rapt_tensor r = c_view(rows);
  const Cache cache(with_pages());
  ASSERT_EQ(rapt_cache_append_to(cache.made, 0, &r, &r), RAPT_OK) << rapt_last_error();
  ASSERT_EQ(rapt_cache_share(cache.made, 0, 1, 3), RAPT_OK) << rapt_last_error();
  int64_t in_use = -1, unused = -1;
  ASSERT_EQ(rapt_cache_pages(cache.made, &in_use, &unused), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(in_use, 2);
  EXPECT_EQ(unused, 3);
  ASSERT_EQ(rapt_cache_clear(cache.made, 0), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(cache.length(0), 0);
  EXPECT_EQ(cache.length(1), 3);
  ASSERT_EQ(rapt_cache_clear_all(cache.made), RAPT_OK) << rapt_last_error();
  EXPECT_EQ(cache.length(1), 0);
}

TEST(CApiCache, RowsLieInTheCallersMemory) {
  const rapt_cache_options options = cache_options();
  Tensor keys(DType::f32, {2, kKvHeads, 6, kDim}), values(DType::f32, {2, kKvHeads, 6, kDim});
  const rapt_tensor k = c_view(keys.view()), v = c_view(values.view());
  rapt_cache* cache = nullptr;
  ASSERT_EQ(rapt_cache_create(&options, &k, &v, &cache), RAPT_OK) << rapt_last_error();
  const Tensor rows = numbers(DType::f32, {kKvHeads, 1, kDim}, 1);
  const rapt_tensor r = c_view(rows);
  EXPECT_EQ(rapt_cache_append_to(cache, 0, &r, &r), RAPT_OK) << rapt_last_error();
  rapt_cache_destroy(cache);
  EXPECT_EQ(values.values<float>()[3], rows.values<float>()[3]);
  rapt_cache_destroy(nullptr);
}

TEST(CApiCache, RowsAreWrittenAsByWriteToCache) {
  Tensor got = numbers(DType::bf16, {2, 5, kDim}, 1),
         expected = numbers(DType::bf16, {2, 5, kDim}, 1);
  const Tensor update = numbers(DType::bf16, {2, 3, kDim}, 2), starts = integers({4, 1});
  const rapt_tensor c = c_view(got.view()), u = c_view(update), s = c_view(starts);
  EXPECT_TRUE(refused(rapt_write_to_cache(&c, &u, &s, RAPT_CACHE_LINEAR), RAPT_ERROR_ARGUMENT,
                      "start of 4"));
  EXPECT_STREQ(rapt_last_error_argument(), "starts");
  ASSERT_EQ(rapt_write_to_cache(&c, &u, &s, RAPT_CACHE_CIRCULAR), RAPT_OK) << rapt_last_error();
  rapt::write_to_cache(expected, update, starts, rapt::CacheEnd::circular);
  expect_same_bits(got, expected, "circular");
  ASSERT_EQ(rapt_write_to_cache(&c, &u, nullptr, RAPT_CACHE_LINEAR), RAPT_OK) << rapt_last_error();
  rapt::write_to_cache(expected, update);
  expect_same_bits(got, expected, "linear");
  EXPECT_TRUE(refused(rapt_write_to_cache(&c, &u, &s, 2), RAPT_ERROR_ARGUMENT,
                      "RAPT_CACHE_LINEAR or RAPT_CACHE_CIRCULAR"));
}

TEST(CApiCache, Mistakes) {
  rapt_cache* made = reinterpret_cast<rapt_cache*>(&made);
  rapt_cache_options options = cache_options();
  options.dtype = 0;
  EXPECT_TRUE(refused(rapt_cache_create(&options, nullptr, nullptr, &made), RAPT_ERROR_DTYPE,
                      "the field is 0"));
  EXPECT_EQ(made, nullptr);
  EXPECT_TRUE(refused(rapt_cache_create(&options, nullptr, nullptr, nullptr), RAPT_ERROR_ARGUMENT,
                      "cache is a null pointer"));
  options.size -= 1;
  EXPECT_TRUE(refused(rapt_cache_create(&options, nullptr, nullptr, &made), RAPT_ERROR_ARGUMENT,
                      "rapt_cache_options"));

  const Tensor rows = numbers(DType::f32, {kKvHeads, 7, kDim}, 1);
  const rapt_tensor r = c_view(rows);
  const Cache cache(cache_options());
  EXPECT_TRUE(refused(rapt_cache_append_to(nullptr, 0, &r, &r), RAPT_ERROR_ARGUMENT,
                      "cache is a null pointer"));
  EXPECT_TRUE(refused(rapt_cache_append_to(cache.made, 0, &r, nullptr), RAPT_ERROR_ARGUMENT,
                      "value is a null pointer"));
  EXPECT_TRUE(refused(rapt_cache_append_to(cache.made, 0, &r, &r), RAPT_ERROR_ARGUMENT, "7 rows"));
  EXPECT_STREQ(rapt_last_error_argument(), "key");
  EXPECT_TRUE(refused(rapt_cache_append_packed(cache.made, &r, &r, nullptr), RAPT_ERROR_ARGUMENT,
                      "starts is missing"));
  EXPECT_TRUE(refused(rapt_cache_share(cache.made, 0, 1, 0), RAPT_ERROR_UNSUPPORTED, "pages"));
  EXPECT_TRUE(refused(rapt_cache_truncate(cache.made, 0, 1), RAPT_ERROR_ARGUMENT, "length of 1"));
  EXPECT_TRUE(refused(rapt_cache_clear(cache.made, 2), RAPT_ERROR_ARGUMENT, "sequence is 2"));
  EXPECT_TRUE(refused(rapt_cache_length(cache.made, 0, nullptr), RAPT_ERROR_ARGUMENT,
                      "length is a null pointer"));

  const Cache paged(with_pages());
  const Tensor twelve = numbers(DType::f32, {2, kKvHeads, 6, kDim}, 1);
  const rapt_tensor e = c_view(twelve);
  EXPECT_TRUE(refused(rapt_cache_append(paged.made, &e, &e, nullptr), RAPT_ERROR_MEMORY_LIMIT,
                      "need 6 pages"));
}

// Options of the version before caches have no room for what a call on a cache needs.
TEST(CApiCache, OptionsBeforeCachesAreTooSmall) {
  const Cache cache(cache_options());
  rapt_options options = no_options();
  const rapt_tensor *key = nullptr, *value = nullptr;
  options.size = offsetof(rapt_options, cache_lengths);
  EXPECT_TRUE(refused(rapt_cache_inputs(cache.made, &options, &key, &value), RAPT_ERROR_ARGUMENT,
                      "rapt_options"));
  EXPECT_EQ(key, nullptr);
  options.size = sizeof options;
  EXPECT_TRUE(refused(rapt_cache_inputs(cache.made, &options, &key, nullptr), RAPT_ERROR_ARGUMENT,
                      "value is a null pointer"));
  EXPECT_EQ(options.cache_lengths, nullptr);
}

}  // namespace
