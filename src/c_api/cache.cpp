// The C interface of caches: translates descriptors into calls of KeyValueCache.
#include <cstddef>
#include <string>
#include <utility>

#include "c_api/descriptors.h"
#include "c_api/enumerations.h"
#include "c_api/failures.h"
#include "rapt/key_value_cache.h"
#include "rapt/rapt_cache_c.h"

// The cache, and descriptors of its views, which refer to lengths and strides in `views`.
struct rapt_cache {
  explicit rapt_cache(rapt::KeyValueCache made);
  rapt_cache(const rapt_cache&) = delete;

  rapt::KeyValueCache cache;
  const rapt::CacheViews views;
  const rapt_tensor key, value, lengths, block_table, starts;
};

namespace rapt::c_api {
namespace {

rapt_tensor descriptor_of(const TensorView& view) {
  return {.size = sizeof(rapt_tensor),
          .data = view.data,
          .dtype = RAPT_F32 + static_cast<rapt_dtype>(view.dtype),
          .device = RAPT_CPU,
          .read_only = view.read_only,
          .rank = view.rank,
          .shape = view.shape,
          .strides = view.strides};
}

CacheEnd end_of(rapt_cache_end given) {
  constexpr Enumerator<CacheEnd> kKnown[] = {
      {RAPT_CACHE_LINEAR, "RAPT_CACHE_LINEAR", CacheEnd::linear},
      {RAPT_CACHE_CIRCULAR, "RAPT_CACHE_CIRCULAR", CacheEnd::circular}};
  return value_of("the end of a cache", given, kKnown);
}

KeyValueCacheOptions options_of(const rapt_cache_options* given) {
  const Known<rapt_cache_options> o(given);
  return {.sequences = o->sequences,
          .num_kv_heads = o->num_kv_heads,
          .capacity = o->capacity,
          .head_dim = o->head_dim,
          .value_dim = o->value_dim,
          .dtype = dtype_of("the cache", o->dtype),
          .end = end_of(o->end),
          .page_keys = o->page_keys,
          .pages = o->pages};
}

KeyValueCache cache_of(const rapt_cache_options* options, const rapt_tensor* keys,
                       const rapt_tensor* values) {
  if (!keys && !values) return KeyValueCache(options_of(options));
  TensorView key_memory, value_memory;
  read_view("keys", keys, key_memory);
  read_view("values", values, value_memory);
  return KeyValueCache(options_of(options), key_memory, value_memory);
}

// The pointer, which must not be null.
template <class T>
T& pointed_to(const char* name, T* pointer) {
  if (!pointer) bad_argument(std::string(name) + " is a null pointer");
  return *pointer;
}

// Reads the tensors of an append and calls append(cache, key, value, third). `third`, of that
// name, is counts or starts, or a null pointer.
template <class Append>
rapt_status append_rows(rapt_cache* to, const rapt_tensor* key, const rapt_tensor* value,
                        const char* name, const rapt_tensor* third, const Append& append) {
  return guarded([&] {
    KeyValueCache& cache = pointed_to("cache", to).cache;
    TensorView key_view, value_view, third_view;
    read_view("key", key, key_view);
    read_view("value", value, value_view);
    read_if_given(name, third, third_view);
    append(cache, key_view, value_view, third_view);
  });
}

}  // namespace
}  // namespace rapt::c_api

using namespace rapt::c_api;

rapt_cache::rapt_cache(rapt::KeyValueCache made)
    : cache(std::move(made)),
      views(cache.views()),
      key(descriptor_of(views.key)),
      value(descriptor_of(views.value)),
      lengths(descriptor_of(views.cache.lengths)),
      block_table(descriptor_of(views.cache.block_table)),
      starts(descriptor_of(views.cache.starts)) {}

extern "C" {

rapt_status rapt_write_to_cache(const rapt_tensor* cache, const rapt_tensor* update,
                                const rapt_tensor* starts, rapt_cache_end end) {
  return guarded([&] {
    rapt::TensorView cache_view, update_view, starts_view;
    read_view("cache", cache, cache_view);
    read_view("update", update, update_view);
    read_if_given("starts", starts, starts_view);
    rapt::write_to_cache(cache_view, update_view, starts_view, end_of(end));
  });
}

rapt_status rapt_cache_create(const rapt_cache_options* options, const rapt_tensor* keys,
                              const rapt_tensor* values, rapt_cache** cache) {
  return guarded([&] {
    pointed_to("cache", cache) = nullptr;
    *cache = new rapt_cache(cache_of(options, keys, values));
  });
}

void rapt_cache_destroy(rapt_cache* cache) { delete cache; }

rapt_status rapt_cache_append(rapt_cache* cache, const rapt_tensor* key, const rapt_tensor* value,
                              const rapt_tensor* counts) {
  return append_rows(cache, key, value, "counts", counts,
                     [](rapt::KeyValueCache& to, const auto& k, const auto& v, const auto& c) {
                       to.append(k, v, c);
                     });
}

rapt_status rapt_cache_append_to(rapt_cache* cache, int64_t sequence, const rapt_tensor* key,
                                 const rapt_tensor* value) {
  return append_rows(cache, key, value, "", nullptr,
                     [&](rapt::KeyValueCache& to, const auto& k, const auto& v, const auto&) {
                       to.append(sequence, k, v);
                     });
}

rapt_status rapt_cache_append_packed(rapt_cache* cache, const rapt_tensor* key,
                                     const rapt_tensor* value, const rapt_tensor* starts) {
  return append_rows(cache, key, value, "starts", starts,
                     [](rapt::KeyValueCache& to, const auto& k, const auto& v, const auto& s) {
                       to.append_packed(k, v, s);
                     });
}

rapt_status rapt_cache_length(const rapt_cache* cache, int64_t sequence, int64_t* length) {
  return guarded(
      [&] { pointed_to("length", length) = pointed_to("cache", cache).cache.length(sequence); });
}

rapt_status rapt_cache_position(const rapt_cache* cache, int64_t sequence, int64_t* position) {
  return guarded([&] {
    pointed_to("position", position) = pointed_to("cache", cache).cache.position(sequence);
  });
}

rapt_status rapt_cache_truncate(rapt_cache* cache, int64_t sequence, int64_t length) {
  return guarded([&] { pointed_to("cache", cache).cache.truncate(sequence, length); });
}

rapt_status rapt_cache_clear(rapt_cache* cache, int64_t sequence) {
  return guarded([&] { pointed_to("cache", cache).cache.clear(sequence); });
}

rapt_status rapt_cache_clear_all(rapt_cache* cache) {
  return guarded([&] { pointed_to("cache", cache).cache.clear(); });
}

rapt_status rapt_cache_share(rapt_cache* cache, int64_t from, int64_t to, int64_t length) {
  return guarded([&] { pointed_to("cache", cache).cache.share(from, to, length); });
}

rapt_status rapt_cache_pages(const rapt_cache* cache, int64_t* in_use, int64_t* unused) {
  return guarded([&] {
    const rapt::KeyValueCache& of = pointed_to("cache", cache).cache;
    int64_t& free_pages = pointed_to("unused", unused);
    pointed_to("in_use", in_use) = of.pages_in_use();
    free_pages = of.pages_free();
  });
}

rapt_status rapt_cache_inputs(const rapt_cache* cache, rapt_options* options,
                              const rapt_tensor** key, const rapt_tensor** value) {
  return guarded([&] {
    const rapt_cache& from = pointed_to("cache", cache);
    check_size(options);
    if (options->size <
        offsetof(rapt_options, cache_starts) + sizeof(decltype(rapt_options::cache_starts)))
      wrong_size("rapt_options", options->size, sizeof(rapt_options));
    const rapt_tensor*& to_value = pointed_to("value", value);
    pointed_to("key", key) = &from.key;
    to_value = &from.value;
    options->cache_lengths = &from.lengths;
    options->cache_block_table =
        from.views.cache.block_table.defined() ? &from.block_table : nullptr;
    options->cache_starts = from.views.cache.starts.defined() ? &from.starts : nullptr;
  });
}

}  // extern "C"
