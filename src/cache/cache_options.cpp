// The options of a KeyValueCache: checked and completed.
#include <string>

#include "base/check_argument.h"
#include "cache/cache_state.h"

namespace rapt {
namespace {

void check_at_least_1(const char* name, int64_t value) {
  if (value < 1)
    fail(ErrorCode::argument, name,
         std::string(name) + " is " + std::to_string(value) + "; expected at least 1");
}

// The most keys of a sequence in a pool of pages.
int64_t paged_capacity(const KeyValueCacheOptions& o) {
  check_at_least_1("page_keys", o.page_keys);
  check_at_least_1("pages", o.pages);
  if (o.pages > INT32_MAX)
    fail(ErrorCode::argument, "pages",
         "pages is " + std::to_string(o.pages) + "; expected at most " + std::to_string(INT32_MAX) +
             ", because block tables are i32");
  if (o.end == CacheEnd::circular)
    fail(ErrorCode::unsupported, "end",
         "a cache in pages cannot be circular; truncate or clear its sequences");
  int64_t keys;
  if (__builtin_mul_overflow(o.page_keys, o.pages, &keys))
    fail(ErrorCode::overflow, "pages", "the keys of all pages do not fit into 64 bits");
  if (o.capacity > keys)
    fail(ErrorCode::argument, "capacity",
         "capacity is " + std::to_string(o.capacity) + " in a pool of " + std::to_string(keys) +
             " keys; expected at most that, or 0 for as many");
  return o.capacity == 0 ? keys : o.capacity;
}

}  // namespace

KeyValueCacheOptions checked(const KeyValueCacheOptions& options) {
  KeyValueCacheOptions o = options;
  check_at_least_1("sequences", o.sequences);
  check_at_least_1("num_kv_heads", o.num_kv_heads);
  check_at_least_1("head_dim", o.head_dim);
  if (o.value_dim == 0) o.value_dim = o.head_dim;
  check_at_least_1("value_dim", o.value_dim);
  if (o.dtype != DType::f32 && o.dtype != DType::f64 && o.dtype != DType::bf16 &&
      o.dtype != DType::f16)
    fail(ErrorCode::dtype, "dtype",
         std::string("dtype is ") + name_of(o.dtype) + "; expected f32, f64, bf16 or f16");
  if (o.end != CacheEnd::linear && o.end != CacheEnd::circular)
    fail(ErrorCode::argument, "end", "unknown end of the cache; expected linear or circular");
  if (o.page_keys != 0 || o.pages != 0) o.capacity = paged_capacity(o);
  check_at_least_1("capacity", o.capacity);
  return o;
}

}  // namespace rapt
