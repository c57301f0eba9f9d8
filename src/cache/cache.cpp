// Rows written into a cache of keys or values, copied as bytes whatever they mean.
#include "rapt/cache.h"

#include <string>

#include "base/check_argument.h"
#include "cache/check_tensor.h"
#include "cache/row_pieces.h"

namespace rapt {
namespace {

void check_update(const TensorView& cache, const TensorView& update) {
  if (cache.rank < 2)
    fail(ErrorCode::shape, "cache",
         "cache " + to_string(cache.dims()) +
             "; expected [..., capacity, dim], two dimensions at least");
  if (cache.read_only)
    fail(ErrorCode::argument, "cache", "cache is read-only; it is written in place");
  if (update.dtype != cache.dtype)
    fail(ErrorCode::dtype, "update",
         std::string("update is ") + name_of(update.dtype) + ", the cache is " +
             name_of(cache.dtype) + "; expected one dtype");
  const int rows = cache.rank - 2;
  bool fits = update.rank == cache.rank;
  for (int i = 0; fits && i < cache.rank; ++i)
    fits = i == rows ? update.shape[i] <= cache.shape[i] : update.shape[i] == cache.shape[i];
  if (!fits)
    fail(ErrorCode::shape, "update",
         "update " + to_string(update.dims()) + " of a cache " + to_string(cache.dims()) +
             "; expected the same shape but for at most as many rows");
}

// The start of the head at `index`, in the cache's leading dimensions.
int64_t start_of(const TensorView& starts, const int64_t* index) {
  if (!starts.defined()) return 0;
  int64_t at = 0;
  for (int i = 0; i < starts.rank; ++i)
    if (starts.shape[i] != 1) at += index[i] * starts.strides[i];
  return static_cast<const int64_t*>(starts.data)[at];
}

void check_starts(const TensorView& starts, const TensorView& cache) {
  if (starts.dtype != DType::i64)
    fail(ErrorCode::dtype, "starts",
         std::string("starts are ") + name_of(starts.dtype) + "; expected i64");
  bool fits = starts.rank <= cache.rank - 2;
  for (int i = 0; fits && i < starts.rank; ++i)
    fits = starts.shape[i] == 1 || starts.shape[i] == cache.shape[i];
  if (!fits)
    fail(ErrorCode::shape, "starts",
         "starts " + to_string(starts.dims()) + " do not fit the first dimensions of the cache " +
             to_string(cache.dims()) + "; each must be equal or 1");
}

// Calls visit(index, cache offset, update offset) for every head.
template <class Visit>
void for_each_head(const TensorView& cache, const TensorView& update, const Visit& visit) {
  int64_t index[kMaxRank] = {};
  const int rank = cache.rank - 2;
  for (;;) {
    int64_t to = 0, from = 0;
    for (int i = 0; i < rank; ++i)
      to += index[i] * cache.strides[i], from += index[i] * update.strides[i];
    visit(index, to, from);
    int i = rank - 1;
    while (i >= 0 && ++index[i] == cache.shape[i]) index[i--] = 0;
    if (i < 0) return;
  }
}

}  // namespace

void write_to_cache(const TensorView& cache, const TensorView& update, const TensorView& starts,
                    CacheEnd end) {
  check_present("cache", cache);
  check_present("update", update);
  check_update(cache, update);
  const Bytes written = extent_of("cache", cache), read = extent_of("update", update);
  Bytes starts_read;
  if (starts.defined()) {
    check_present("starts", starts);
    check_starts(starts, cache);
    starts_read = extent_of("starts", starts);
  }
  if (end != CacheEnd::linear && end != CacheEnd::circular)
    fail(ErrorCode::argument, "end", "unknown end of the cache; expected linear or circular");
  if (overlaps_itself(cache))
    fail(ErrorCode::overlap, "cache", "cache: two of its elements may share memory (strides)");
  if (written.meets(read) || written.meets(starts_read))
    fail(ErrorCode::overlap, "cache",
         "cache overlaps what is read in memory; give it memory of its own");
  if (update.empty()) return;

  const int rows = cache.rank - 2;
  const int64_t capacity = cache.shape[rows], count = update.shape[rows];
  for_each_head(cache, update, [&](const int64_t* index, int64_t, int64_t) {
    const int64_t start = start_of(starts, index);
    if (start < 0 || (end == CacheEnd::linear && start > capacity - count))
      fail(ErrorCode::argument, "starts",
           "a start of " + std::to_string(start) + " for " + std::to_string(count) +
               " rows in a cache of " + std::to_string(capacity) + "; expected 0 " +
               (end == CacheEnd::linear ? "to " + std::to_string(capacity - count) : "or more"));
  });

  for_each_head(cache, update, [&](const int64_t* index, int64_t to, int64_t from) {
    for_each_piece(start_of(starts, index) % capacity, count, capacity,
                   [&](int64_t row, int64_t, int64_t slot, int64_t piece) {
                     copy_run(cache, to + slot * cache.strides[rows], update,
                              from + row * update.strides[rows], piece);
                   });
  });
}

}  // namespace rapt
