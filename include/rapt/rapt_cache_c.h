#pragma once
// The C interface of caches of keys and values (cache.h, key_value_cache.h). Descriptors, statuses
// and messages are those of rapt_c.h.
//
//   rapt_cache_options options = {.size = sizeof options, .sequences = 2, .num_kv_heads = 8,
//                                 .capacity = 4096, .head_dim = 64, .dtype = RAPT_F32};
//   rapt_cache* cache;
//   rapt_cache_create(&options, NULL, NULL, &cache);
//   rapt_cache_append(cache, &key, &value, NULL);
//   const rapt_tensor *keys, *values;
//   rapt_cache_inputs(cache, &call_options, &keys, &values);
//   rapt_attention_forward(&query, keys, values, &call_options, &results, NULL, 0, NULL);
//
// Threads. One thread may change a cache while no other uses it; any number of threads may call
// attention on a cache that nobody changes.
#include "rapt/rapt_c.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t rapt_cache_end;  // what happens at the end of a cache
enum {
  RAPT_CACHE_LINEAR = 0,   // a row beyond the end is rejected
  RAPT_CACHE_CIRCULAR = 1  // rows continue at the beginning and overwrite the oldest ones
};

// Writes new rows into a cache [B, ..., capacity, dim] in place:
//   linear    cache[b, ..., starts[b] + i, :] = update[b, ..., i, :]
//   circular  cache[b, ..., (starts[b] + i) mod capacity, :] = update[b, ..., i, :]
// update [B, ..., n, dim], n <= capacity, of the cache's dtype. starts [B], or more of the leading
// dimensions, i64; NULL: 0. Errors: shape, dtype, argument, overlap, overflow.
rapt_status rapt_write_to_cache(const rapt_tensor* cache, const rapt_tensor* update,
                                const rapt_tensor* starts, rapt_cache_end end);

typedef struct rapt_cache_options {  // what a cache holds, and in which memory
  size_t size;                       // sizeof(rapt_cache_options)
  int64_t sequences;
  int64_t num_kv_heads;
  int64_t capacity;  // the most keys of a sequence; 0 with pages: as many as the pool has
  int64_t head_dim;
  int64_t value_dim;   // 0: head_dim
  rapt_dtype dtype;    // RAPT_F32, RAPT_F64, RAPT_BF16 or RAPT_F16
  rapt_cache_end end;  // RAPT_CACHE_LINEAR; circular without pages only
  int64_t page_keys;   // keys of a page; 0: no pages
  int64_t pages;       // pages of the pool, with page_keys
} rapt_cache_options;

// Keys and values of several sequences: a KeyValueCache.
typedef struct rapt_cache rapt_cache;

// keys [pages, num_kv_heads, page_keys, head_dim] and values with value_dim: the caller's memory,
// which must stay valid; any strides without overlaps. Without pages: [sequences, num_kv_heads,
// capacity, dim]. Both NULL: the cache allocates them. *cache is NULL after an error. Errors:
// argument, dtype, shape, overlap, overflow, unsupported, out_of_memory.
rapt_status rapt_cache_create(const rapt_cache_options* options, const rapt_tensor* keys,
                              const rapt_tensor* values, rapt_cache** cache);
void rapt_cache_destroy(rapt_cache* cache);  // NULL is allowed; no call may be running

// Appends rows to all sequences: key [sequences, num_kv_heads, n, head_dim] and value with
// value_dim. counts [sequences] i64: sequence s takes the first counts[s] rows; NULL: all n.
// A rejected append has no effect. Errors: shape, dtype, argument (also beyond the capacity),
// overlap, overflow, memory_limit (too few free pages).
rapt_status rapt_cache_append(rapt_cache* cache, const rapt_tensor* key, const rapt_tensor* value,
                              const rapt_tensor* counts);
// The same for one sequence: key [num_kv_heads, n, head_dim].
rapt_status rapt_cache_append_to(rapt_cache* cache, int64_t sequence, const rapt_tensor* key,
                                 const rapt_tensor* value);
// The same for rows of all sequences, one after the other: key [num_kv_heads, total, head_dim], of
// which sequence s takes the rows [starts[s], starts[s + 1]). starts [sequences + 1] i64.
rapt_status rapt_cache_append_packed(rapt_cache* cache, const rapt_tensor* key,
                                     const rapt_tensor* value, const rapt_tensor* starts);

// The keys that a sequence holds, and the position of its next token. Errors: argument.
rapt_status rapt_cache_length(const rapt_cache* cache, int64_t sequence, int64_t* length);
rapt_status rapt_cache_position(const rapt_cache* cache, int64_t sequence, int64_t* position);

// Keeps the oldest `length` keys of those that a sequence holds. Errors: argument.
rapt_status rapt_cache_truncate(rapt_cache* cache, int64_t sequence, int64_t length);
// Drops all keys, of one sequence or of all. Errors: argument.
rapt_status rapt_cache_clear(rapt_cache* cache, int64_t sequence);
rapt_status rapt_cache_clear_all(rapt_cache* cache);

// Lets the empty sequence `to` begin with the first `length` keys of `from`, without a copy.
// Errors: argument; unsupported without pages.
rapt_status rapt_cache_share(rapt_cache* cache, int64_t from, int64_t to, int64_t length);

// Pages that sequences hold, and the others; 0 without pages. Errors: argument.
rapt_status rapt_cache_pages(const rapt_cache* cache, int64_t* in_use, int64_t* unused);

// What a call needs to read the cache: its key and value, and the members `cache_...` of its
// options; `options` keeps all others. The tensors belong to the cache, and show every later
// change, until it is destroyed. So this is needed once, also before rapt_prepare(). Errors:
// argument.
rapt_status rapt_cache_inputs(const rapt_cache* cache, rapt_options* options,
                              const rapt_tensor** key, const rapt_tensor** value);

#ifdef __cplusplus
}  // extern "C"
#endif
