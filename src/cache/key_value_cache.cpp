// KeyValueCache: checks first, then changes that cannot fail.
#include "rapt/key_value_cache.h"

#include <algorithm>
#include <string>

#include "base/check_argument.h"
#include "cache/cache_state.h"
#include "cache/check_tensor.h"

namespace rapt {
namespace {

void check_sequence(const char* name, int64_t sequence, const KeyValueCacheOptions& options) {
  if (sequence < 0 || sequence >= options.sequences)
    fail(ErrorCode::argument, name,
         std::string(name) + " is " + std::to_string(sequence) + "; expected 0 to " +
             std::to_string(options.sequences - 1));
}

// Throws unless 0 <= length <= most.
void check_length(int64_t length, int64_t sequence, int64_t most) {
  if (length < 0 || length > most)
    fail(ErrorCode::argument, "length",
         "a length of " + std::to_string(length) + " of sequence " + std::to_string(sequence) +
             ", which holds " + std::to_string(most) + " keys; expected 0 to " +
             std::to_string(most));
}

void check_counts(const NewRows& rows) {
  check_integers("counts", rows.counts, rows.last);
  const int64_t most = rows.key.shape[2];
  for (int64_t s = 0; s < rows.last; ++s)
    if (const int64_t count = rows.count(s); count < 0 || count > most)
      fail(ErrorCode::argument, "counts",
           "counts[" + std::to_string(s) + "] is " + std::to_string(count) + "; expected 0 to " +
               std::to_string(most) + ", the rows of key");
}

void check_starts(const NewRows& rows) {
  check_integers("starts", rows.starts, rows.last + 1);
  const int64_t total = rows.key.shape[2];
  for (int64_t s = 0; s <= rows.last; ++s) {
    const int64_t start = integer_at(rows.starts, s);
    const int64_t least = s == 0 ? 0 : integer_at(rows.starts, s - 1);
    const int64_t most = s == 0 ? 0 : total;
    if (start < least || start > most || (s == rows.last && start != total))
      fail(ErrorCode::argument, "starts",
           "starts[" + std::to_string(s) + "] is " + std::to_string(start) +
               "; expected numbers from 0 to " + std::to_string(total) +
               ", the rows of key, that never decrease");
  }
}

}  // namespace

KeyValueCache::KeyValueCache(const KeyValueCacheOptions& options)
    : state_(std::make_unique<State>(checked(options))) {
  state_->allocate_rows();
}

KeyValueCache::KeyValueCache(const KeyValueCacheOptions& options, const TensorView& keys,
                             const TensorView& values)
    : state_(std::make_unique<State>(checked(options))) {
  state_->use_rows(keys, values);
}

KeyValueCache::KeyValueCache(KeyValueCache&&) noexcept = default;
KeyValueCache& KeyValueCache::operator=(KeyValueCache&&) noexcept = default;
KeyValueCache::~KeyValueCache() = default;

const KeyValueCacheOptions& KeyValueCache::options() const noexcept { return state_->options; }

int64_t KeyValueCache::length(int64_t sequence) const {
  check_sequence("sequence", sequence, state_->options);
  return state_->length(sequence);
}

int64_t KeyValueCache::position(int64_t sequence) const {
  check_sequence("sequence", sequence, state_->options);
  return state_->positions[static_cast<size_t>(sequence)];
}

void KeyValueCache::append(const TensorView& key, const TensorView& value,
                           const TensorView& counts) {
  const KeyValueCacheOptions& o = state_->options;
  check_rows("key", key, {o.sequences, o.num_kv_heads, kAnyRows, o.head_dim}, o.dtype);
  check_rows("value", value, {o.sequences, o.num_kv_heads, key.shape[2], o.value_dim}, o.dtype);
  const NewRows rows{0, o.sequences, key, value, counts, {}};
  if (counts.defined()) check_counts(rows);
  state_->check_room(rows);
  state_->append(rows);
}

void KeyValueCache::append(int64_t sequence, const TensorView& key, const TensorView& value) {
  const KeyValueCacheOptions& o = state_->options;
  check_sequence("sequence", sequence, o);
  check_rows("key", key, {o.num_kv_heads, kAnyRows, o.head_dim}, o.dtype);
  check_rows("value", value, {o.num_kv_heads, key.shape[1], o.value_dim}, o.dtype);
  const NewRows rows{sequence, sequence + 1, for_every_sequence(key), for_every_sequence(value), {},
                     {}};
  state_->check_room(rows);
  state_->append(rows);
}

void KeyValueCache::append_packed(const TensorView& key, const TensorView& value,
                                  const TensorView& starts) {
  const KeyValueCacheOptions& o = state_->options;
  check_rows("key", key, {o.num_kv_heads, kAnyRows, o.head_dim}, o.dtype);
  check_rows("value", value, {o.num_kv_heads, key.shape[1], o.value_dim}, o.dtype);
  const NewRows rows{0,  o.sequences, for_every_sequence(key), for_every_sequence(value),
                     {}, starts};
  check_starts(rows);
  state_->check_room(rows);
  state_->append(rows);
}

void KeyValueCache::truncate(int64_t sequence, int64_t length) {
  check_sequence("sequence", sequence, state_->options);
  check_length(length, sequence, state_->length(sequence));
  state_->truncate(sequence, length);
}

void KeyValueCache::clear(int64_t sequence) {
  check_sequence("sequence", sequence, state_->options);
  state_->clear(sequence);
}

void KeyValueCache::clear() noexcept {
  for (int64_t s = 0; s < state_->options.sequences; ++s) state_->clear(s);
}

void KeyValueCache::share(int64_t from, int64_t to, int64_t length) {
  check_sequence("from", from, state_->options);
  check_sequence("to", to, state_->options);
  if (!state_->paged())
    fail(ErrorCode::unsupported, "page_keys",
         "a cache without pages cannot share keys; give it page_keys and pages");
  if (const int64_t held = state_->length(to); held > 0)
    fail(ErrorCode::argument, "to",
         "sequence " + std::to_string(to) + " holds " + std::to_string(held) +
             " keys; clear it before it shares those of another");
  check_length(length, from, state_->length(from));
  state_->share(from, to, length);
}

int64_t KeyValueCache::pages_in_use() const noexcept { return state_->pool.in_use(); }
int64_t KeyValueCache::pages_free() const noexcept { return state_->pool.free(); }

CacheViews KeyValueCache::views() const& {
  const State& state = *state_;
  CacheViews views;
  views.key = state.keys, views.value = state.values;
  views.key.read_only = views.value.read_only = true;
  views.cache.lengths = state.lengths;
  if (state.paged()) views.cache.block_table = state.block_table;
  if (state.options.end == CacheEnd::circular) views.cache.starts = state.starts;
  return views;
}

}  // namespace rapt
