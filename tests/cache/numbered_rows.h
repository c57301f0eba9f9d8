#pragma once
// Rows whose elements are a number of the test's choice, and what a cache holds of them.
#include <vector>

#include "check/tensors/arrays.h"
#include "rapt/key_value_cache.h"

namespace cache_tests {

using check::Dims;
using check::filled;
using check::get;
using rapt::CacheEnd;
using rapt::CacheViews;
using rapt::DType;
using rapt::ErrorCode;
using rapt::KeyValueCache;
using rapt::KeyValueCacheOptions;
using rapt::Tensor;
using rapt::TensorView;

// [num_kv_heads, numbers, dim]: all elements of row i are numbers[i].
inline Tensor rows(int64_t num_kv_heads, const std::vector<double>& numbers, int64_t dim) {
  const Tensor zeros =
      filled(DType::f32, {num_kv_heads, static_cast<int64_t>(numbers.size()), dim}, 0);
  return check::mapped(zeros, [&](double, std::span<const int64_t> at) {
    return numbers[static_cast<size_t>(at[1])];
  });
}

inline Tensor integers(const std::vector<int64_t>& numbers) {
  Tensor t(DType::i64, {static_cast<int64_t>(numbers.size())});
  std::copy(numbers.begin(), numbers.end(), t.values<int64_t>().begin());
  return t;
}

// The first elements of the keys of a sequence, in its last head, in order.
inline std::vector<double> keys_of(const KeyValueCache& cache, int64_t sequence) {
  const CacheViews views = cache.views();
  const int64_t page_keys = views.key.shape[2];
  const TensorView& table = views.cache.block_table;
  std::vector<double> numbers;
  for (int64_t j = 0; j < cache.length(sequence); ++j) {
    const int64_t start = views.cache.starts.defined()
                              ? static_cast<const int64_t*>(views.cache.starts.data)[sequence]
                              : 0;
    const int64_t columns = table.defined() ? table.shape[1] : 1;
    const int64_t slot = (start + j) % (columns * page_keys);
    const int64_t page =
        table.defined()
            ? static_cast<const int32_t*>(table.data)[sequence * columns + slot / page_keys]
            : sequence;
    numbers.push_back(get(views.key, Dims{page, views.key.shape[1] - 1, slot % page_keys, 0}));
  }
  return numbers;
}

}  // namespace cache_tests
