// What a cache rejects: one Error each, before a byte is written.
#include <gtest/gtest.h>

#include <functional>

#include "cache/numbered_rows.h"
#include "support/expect_error.h"

namespace cache_tests {
namespace {

using laws::expect_error;

TEST(KeyValueCacheRejects, Options) {
  const auto rejected = [](ErrorCode code, const std::vector<std::string>& words,
                           const std::function<void(KeyValueCacheOptions&)>& spoil) {
    KeyValueCacheOptions options{.sequences = 2, .num_kv_heads = 2, .capacity = 4, .head_dim = 3};
    spoil(options);
    expect_error(code, words, [&] { KeyValueCache cache(options); });
  };
  using O = KeyValueCacheOptions;
  rejected(ErrorCode::argument, {"sequences is 0"}, [](O& o) { o.sequences = 0; });
  rejected(ErrorCode::argument, {"num_kv_heads is -1"}, [](O& o) { o.num_kv_heads = -1; });
  rejected(ErrorCode::argument, {"capacity is 0"}, [](O& o) { o.capacity = 0; });
  rejected(ErrorCode::argument, {"head_dim is 0"}, [](O& o) { o.head_dim = 0; });
  rejected(ErrorCode::argument, {"value_dim is -2"}, [](O& o) { o.value_dim = -2; });
  rejected(ErrorCode::dtype, {"i64", "f16"}, [](O& o) { o.dtype = DType::i64; });
  rejected(ErrorCode::argument, {"unknown end"}, [](O& o) { o.end = static_cast<CacheEnd>(2); });
  rejected(ErrorCode::argument, {"page_keys is 0"}, [](O& o) { o.pages = 3; });
  rejected(ErrorCode::argument, {"pages is 0"}, [](O& o) { o.page_keys = 3; });
  rejected(ErrorCode::argument, {"capacity is 4", "2 keys"},
           [](O& o) { o.page_keys = 2, o.pages = 1; });
  rejected(ErrorCode::argument, {"i32"}, [](O& o) { o.page_keys = 2, o.pages = int64_t{1} << 31; });
  rejected(ErrorCode::overflow, {"64 bits"},
           [](O& o) { o.page_keys = int64_t{1} << 62, o.pages = 8; });
  rejected(ErrorCode::unsupported, {"circular"},
           [](O& o) { o.page_keys = 2, o.pages = 8, o.end = CacheEnd::circular; });
  rejected(ErrorCode::overflow, {}, [](O& o) { o.capacity = int64_t{1} << 60; });
}

TEST(KeyValueCacheRejects, TheCallersMemory) {
  const KeyValueCacheOptions options{.sequences = 2, .capacity = 4, .head_dim = 3};
  Tensor keys = filled(DType::f32, {2, 1, 4, 3}, 1), values = filled(DType::f32, {2, 1, 4, 3}, 1);
  const auto rejected = [&](ErrorCode code, const std::vector<std::string>& words,
                            const TensorView& k, const TensorView& v) {
    expect_error(code, words, [&] { KeyValueCache cache(options, k, v); });
  };
  Tensor small = filled(DType::f32, {2, 1, 3, 3}, 1), f64 = filled(DType::f64, {2, 1, 4, 3}, 1);
  rejected(ErrorCode::argument, {"values are missing"}, keys, {});
  rejected(ErrorCode::shape, {"[2, 1, 3, 3]", "[2, 1, 4, 3]"}, small, values);
  rejected(ErrorCode::dtype, {"values", "f64"}, keys, f64);
  rejected(ErrorCode::argument, {"read-only"}, std::as_const(keys).view(), values);
  rejected(ErrorCode::overlap, {"keys and values"}, keys, keys);
  const TensorView folded(keys.data(), DType::f32, Dims{2, 1, 4, 3}, Dims{0, 0, 3, 1}, false);
  rejected(ErrorCode::overlap, {"strides"}, folded, values);
}

// A cache of two sequences, of which sequence 0 holds three keys. Each rejected change leaves it.
class KeyValueCacheRejectsChanges : public ::testing::Test {
 protected:
  KeyValueCacheRejectsChanges() {
    const Tensor old = rows(2, {1, 2, 3}, 3);
    cache.append(0, old, old);
  }
  void rejected(ErrorCode code, const std::vector<std::string>& words,
                const std::function<void()>& change) {
    expect_error(code, words, change);
    EXPECT_EQ(keys_of(cache, 0), (std::vector<double>{1, 2, 3}));
    EXPECT_EQ(cache.position(0), 3);
    EXPECT_EQ(cache.length(1), 0);
    EXPECT_EQ(cache.pages_in_use(), 2);
  }

  KeyValueCache cache{{.sequences = 2,
                       .num_kv_heads = 2,
                       .capacity = 6,
                       .head_dim = 3,
                       .page_keys = 2,
                       .pages = 4}};
};

TEST_F(KeyValueCacheRejectsChanges, Rows) {
  const Tensor two = filled(DType::f32, {2, 2, 2, 3}, 9), one = filled(DType::f32, {2, 2, 1, 3}, 9);
  rejected(ErrorCode::argument, {"key is missing"}, [&] { cache.append({}, two); });
  rejected(ErrorCode::shape, {"value [2, 2, 1, 3]", "[2, 2, 2, 3]"},
           [&] { cache.append(two, one); });
  rejected(ErrorCode::shape, {"key [2, 1, 2, 3]", "[2, 2, n, 3]"}, [&] {
    cache.append(filled(DType::f32, {2, 1, 2, 3}, 9), two);
  });
  rejected(ErrorCode::shape, {"[2, 2, 2, 3]", "[2, n, 3]"}, [&] { cache.append(1, two, two); });
  rejected(ErrorCode::dtype, {"value is f64", "f32"}, [&] {
    cache.append(two, filled(DType::f64, {2, 2, 2, 3}, 9));
  });
  TensorView null = two;
  null.data = nullptr;
  rejected(ErrorCode::argument, {"null data"}, [&] { cache.append(null, two); });
  const TensorView own = cache.views().key.slice(0, 0, 2);  // [2, 2, 2, 3]
  rejected(ErrorCode::overlap, {"overlaps"}, [&] { cache.append(own, two); });
}

TEST_F(KeyValueCacheRejectsChanges, CountsAndStarts) {
  const Tensor two = filled(DType::f32, {2, 2, 2, 3}, 9), flat = filled(DType::f32, {2, 3, 3}, 9);
  const auto counts = [&](const std::vector<int64_t>& numbers) {
    return [&, numbers] { cache.append(two, two, integers(numbers)); };
  };
  rejected(ErrorCode::argument, {"counts[1] is -1"}, counts({2, -1}));
  rejected(ErrorCode::argument, {"counts[0] is 3", "0 to 2"}, counts({3, 0}));
  rejected(ErrorCode::shape, {"counts [1]", "[2]"}, counts({1}));
  rejected(ErrorCode::dtype, {"counts are f32", "i64"},
           [&] { cache.append(two, two, filled(DType::f32, {2}, 1)); });
  const auto starts = [&](const std::vector<int64_t>& numbers) {
    return [&, numbers] { cache.append_packed(flat, flat, integers(numbers)); };
  };
  rejected(ErrorCode::argument, {"starts[0] is 1"}, starts({1, 2, 3}));
  rejected(ErrorCode::argument, {"starts[2] is 2"}, starts({0, 1, 2}));
  rejected(ErrorCode::argument, {"starts[1] is -1"}, starts({0, -1, 3}));
  rejected(ErrorCode::argument, {"starts[1] is 4"}, starts({0, 4, 3}));
  rejected(ErrorCode::shape, {"starts [2]", "[3]"}, starts({0, 3}));
  rejected(ErrorCode::argument, {"starts is missing"},
           [&] { cache.append_packed(flat, flat, {}); });
}

TEST_F(KeyValueCacheRejectsChanges, WhatDoesNotFit) {
  const Tensor four = filled(DType::f32, {2, 4, 3}, 9), six = filled(DType::f32, {2, 6, 3}, 9);
  rejected(ErrorCode::argument, {"4 rows for sequence 0", "3 keys of 6", "at most 3"},
           [&] { cache.append(0, four, four); });
  rejected(ErrorCode::memory_limit, {"need 3 pages", "2 of 4"}, [&] { cache.append(1, six, six); });
  // Sequence 0 alone fits, both do not.
  const Tensor batch = filled(DType::f32, {2, 2, 3, 3}, 9);
  rejected(ErrorCode::memory_limit, {"need 3 pages"}, [&] { cache.append(batch, batch); });
}

TEST_F(KeyValueCacheRejectsChanges, SequencesAndLengths) {
  const Tensor row = filled(DType::f32, {2, 1, 3}, 9);
  rejected(ErrorCode::argument, {"sequence is 2", "0 to 1"}, [&] { cache.append(2, row, row); });
  rejected(ErrorCode::argument, {"sequence is -1"}, [&] { cache.length(-1); });
  rejected(ErrorCode::argument, {"sequence is 2"}, [&] { cache.position(2); });
  rejected(ErrorCode::argument, {"sequence is 2"}, [&] { cache.clear(2); });
  rejected(ErrorCode::argument, {"length of 4", "0 to 3"}, [&] { cache.truncate(0, 4); });
  rejected(ErrorCode::argument, {"length of -1"}, [&] { cache.truncate(0, -1); });
  rejected(ErrorCode::argument, {"length of 4 of sequence 0"}, [&] { cache.share(0, 1, 4); });
  rejected(ErrorCode::argument, {"from is 2"}, [&] { cache.share(2, 1, 1); });
  rejected(ErrorCode::argument, {"to is -1"}, [&] { cache.share(0, -1, 1); });
  rejected(ErrorCode::argument, {"sequence 0 holds 3 keys"}, [&] { cache.share(1, 0, 0); });
  KeyValueCache linear({.sequences = 2, .capacity = 4, .head_dim = 3});
  expect_error(ErrorCode::unsupported, {"without pages"}, [&] { linear.share(0, 1, 0); });
}

}  // namespace
}  // namespace cache_tests
