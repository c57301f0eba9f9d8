#pragma once
// Keys and values of several sequences, kept between calls. Rows are appended, and calls read them
// where they lie:
//
//   KeyValueCache cache({.sequences = 2, .num_kv_heads = 8, .capacity = 4096, .head_dim = 64});
//   cache.append(key, value);
//   const CacheViews now = cache.views();
//   scaled_dot_product_attention(query, now.key, now.value,
//                                {.masks = {&causal}, .cache = now.cache});
//
// Three kinds:
//   linear    sequence s has `capacity` rows of its own; an append beyond them is rejected
//   circular  the same rows; an append beyond them overwrites the oldest, so that the last
//             `capacity` keys are held. Of an append of more rows the last `capacity` are kept
//   in pages  sequences take pages of `page_keys` rows from a pool as they grow, and may share them
//             (vLLM, Kwon et al. 2023, arXiv:2309.06180)
//
// Every change is checked before the first byte is written, so that a rejected append has no
// effect. No function but the constructors allocates. One thread may change a cache while no other
// uses it; any number of threads may call attention on a cache that nobody changes.
#include <cstdint>
#include <memory>

#include "rapt/cache.h"
#include "rapt/cached_keys.h"
#include "rapt/tensor.h"

namespace rapt {

// What a cache holds, and in which memory.
struct KeyValueCacheOptions {
  int64_t sequences = 1;
  int64_t num_kv_heads = 1;
  int64_t capacity = 0;  // the most keys of a sequence; 0 with pages: as many as the pool has
  int64_t head_dim = 0;
  int64_t value_dim = 0;            // 0: head_dim
  DType dtype = DType::f32;         // f32, f64, bf16 or f16
  CacheEnd end = CacheEnd::linear;  // circular: without pages only
  int64_t page_keys = 0;            // keys of a page; 0: no pages
  int64_t pages = 0;                // pages of the pool, with page_keys
};

// What a call needs to read a cache. The views stay valid, and show every later change, until the
// cache is destroyed or assigned to.
struct CacheViews {
  TensorView key = {};    // [pages, num_kv_heads, page_keys, head_dim], read-only. Without pages:
                          // [sequences, num_kv_heads, capacity, head_dim]
  TensorView value = {};  // the same with value_dim
  CachedKeys cache = {};  // options.cache of the call
};

class KeyValueCache {
 public:
  // Allocates the memory of keys and values, 64-byte aligned. Beside it, pages need a block table
  // of 4 bytes for each sequence and page_keys of its capacity.
  // Throws Error(argument, dtype, overflow, unsupported), std::bad_alloc.
  explicit KeyValueCache(const KeyValueCacheOptions& options);

  // Keeps keys and values in the caller's memory, which must outlive the cache. Shapes are those of
  // CacheViews; any strides without overlaps. Throws as above and Error(shape, overlap).
  KeyValueCache(const KeyValueCacheOptions& options, const TensorView& keys,
                const TensorView& values);
  template <class Keys, TemporaryBeside<Keys> Values>
  KeyValueCache(const KeyValueCacheOptions&, Keys&&, Values&&) = delete;

  // A cache that was moved from may only be destroyed or assigned to.
  KeyValueCache(KeyValueCache&&) noexcept;
  KeyValueCache& operator=(KeyValueCache&&) noexcept;
  ~KeyValueCache();

  // As given, with capacity and value_dim filled in.
  const KeyValueCacheOptions& options() const noexcept;

  // The keys that a sequence holds. Throws Error(argument) for a sequence that the cache does not
  // have, as all functions with a sequence do.
  int64_t length(int64_t sequence) const;
  // The position of the next token: tokens that were appended and not truncated, also if a circular
  // cache has overwritten them. Key 0 has position position() - length().
  int64_t position(int64_t sequence) const;

  // Appends rows to all sequences: key [sequences, num_kv_heads, n, head_dim] and value with
  // value_dim, of the cache's dtype, any strides. counts [sequences] i64: sequence s takes the
  // first counts[s] rows, 0 to n; absent: all n.
  // Throws Error(shape, dtype, overlap), Error(argument) for a missing tensor, for counts out of
  // range and beyond the capacity, Error(memory_limit) if the pool has too few free pages.
  void append(const TensorView& key, const TensorView& value, const TensorView& counts = {});
  // Appends rows to one sequence: key [num_kv_heads, n, head_dim]. Throws as above.
  void append(int64_t sequence, const TensorView& key, const TensorView& value);
  // Appends rows of all sequences that lie one after the other: key [num_kv_heads, total,
  // head_dim], of which sequence s takes the rows [starts[s], starts[s + 1]). starts [sequences +
  // 1] i64: from 0 to total, never decreasing. Throws as above.
  void append_packed(const TensorView& key, const TensorView& value, const TensorView& starts);

  // Keeps the oldest `length` keys of those that a sequence holds. The position goes back by the
  // number of dropped keys. A circular cache does not get back keys that it has overwritten.
  // Throws Error(argument) for a negative length and for one above length(sequence).
  void truncate(int64_t sequence, int64_t length);
  // Drops all keys, of one sequence or of all; positions begin at 0 again.
  void clear(int64_t sequence);
  void clear() noexcept;

  // Lets the empty sequence `to` begin with the first `length` keys of `from`, which lie in the
  // same pages: no key is copied. The first append to a partly filled page that several sequences
  // hold copies its keys to a page of the appending sequence's own.
  // Throws Error(argument), and Error(unsupported) for a cache without pages.
  void share(int64_t from, int64_t to, int64_t length);

  // Pages that at least one sequence holds, and the others; 0 without pages.
  int64_t pages_in_use() const noexcept;
  int64_t pages_free() const noexcept;

  CacheViews views() const&;
  CacheViews views() const&& = delete;  // the memory would be gone before the call

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rapt
