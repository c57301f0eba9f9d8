#include "cache/cache_state.h"

#include <algorithm>
#include <string>

#include "base/check_argument.h"
#include "base/tensor_memory.h"
#include "cache/row_pieces.h"

namespace rapt {
namespace {

// Copies `count` rows of every head, from row `row` of from[i] to row `slot` of to[page].
void copy_heads(const TensorView& to, int64_t page, int64_t slot, const TensorView& from, int64_t i,
                int64_t row, int64_t count) noexcept {
  for (int64_t h = 0; h < to.shape[1]; ++h)
    copy_run(to, page * to.strides[0] + h * to.strides[1] + slot * to.strides[2], from,
             i * from.strides[0] + h * from.strides[1] + row * from.strides[2], count);
}

}  // namespace

KeyValueCache::State::State(const KeyValueCacheOptions& checked_options)
    : options(checked_options),
      page_keys(paged() ? options.page_keys : options.capacity),
      lengths(DType::i64, {options.sequences}),
      starts(DType::i64, {options.sequences}),
      block_table(DType::i32, {options.sequences, paged() ? pages_of(options.capacity) : 0}),
      positions(static_cast<size_t>(options.sequences), 0),
      copies(static_cast<size_t>(options.sequences), false),
      pool(options.pages) {
  std::ranges::fill(lengths.values<int64_t>(), 0);
  std::ranges::fill(starts.values<int64_t>(), 0);
  std::ranges::fill(block_table.values<int32_t>(), -1);
}

void KeyValueCache::State::allocate_rows() {
  const int64_t pages = paged() ? options.pages : options.sequences;
  own_keys = Tensor(options.dtype, {pages, options.num_kv_heads, page_keys, options.head_dim});
  own_values = Tensor(options.dtype, {pages, options.num_kv_heads, page_keys, options.value_dim});
  keys = own_keys, values = own_values;
}

void KeyValueCache::State::use_rows(const TensorView& caller_keys,
                                    const TensorView& caller_values) {
  const int64_t pages = paged() ? options.pages : options.sequences;
  const auto check = [&](const char* name, const TensorView& view, int64_t dim) {
    const int64_t shape[] = {pages, options.num_kv_heads, page_keys, dim};
    if (!view.defined()) fail(ErrorCode::argument, name, std::string(name) + " are missing");
    return check_output_tensor(name, view, shape, options.dtype);
  };
  const Bytes of_keys = check("keys", caller_keys, options.head_dim);
  const Bytes of_values = check("values", caller_values, options.value_dim);
  if (of_keys.meets(of_values) && !take_turns(caller_keys, caller_values))
    fail(ErrorCode::overlap, "values",
         "keys and values overlap in memory; give each memory of its own");
  keys = caller_keys, values = caller_values;
}

void KeyValueCache::State::check_room(const NewRows& rows) {
  const Bytes written[] = {extent_of("keys", keys), extent_of("values", values)};
  const Bytes read[] = {extent_of("key", rows.key), extent_of("value", rows.value),
                        extent_of("counts", rows.counts), extent_of("starts", rows.starts)};
  for (const Bytes& to : written)
    for (const Bytes& from : read)
      if (to.meets(from))
        fail(ErrorCode::overlap, "key",
             "the cache overlaps what is appended in memory; copy the rows first");
  if (options.end == CacheEnd::circular) return;
  for (int64_t s = rows.first; s < rows.last; ++s)
    if (const int64_t count = rows.count(s); count > options.capacity - length(s))
      fail(ErrorCode::argument, "key",
           std::to_string(count) + " rows for sequence " + std::to_string(s) + ", which holds " +
               std::to_string(length(s)) + " keys of " + std::to_string(options.capacity) +
               "; expected at most " + std::to_string(options.capacity - length(s)));
  if (!paged()) return;
  if (const int64_t needed = pages_needed(rows); needed > pool.free())
    fail(ErrorCode::memory_limit, "pages",
         "the rows need " + std::to_string(needed) + " pages, and " + std::to_string(pool.free()) +
             " of " + std::to_string(options.pages) +
             " are free; clear or truncate sequences, or give the cache more pages");
}

// New pages, and copies of shared ones. Of several sequences that append to one shared page, the
// last holder keeps it. So each copy gives its hold back while the others are counted.
int64_t KeyValueCache::State::pages_needed(const NewRows& rows) {
  int64_t needed = 0;
  for (int64_t s = rows.first; s < rows.last; ++s) {
    const int64_t count = rows.count(s);
    needed += pages_of(length(s) + count) - pages_of(length(s));
    const bool copies_page = count > 0 && shares_last_page(s);
    copies[static_cast<size_t>(s)] = copies_page;
    if (copies_page) ++needed, pool.release(page(s, length(s) / page_keys));
  }
  for (int64_t s = rows.first; s < rows.last; ++s)
    if (copies[static_cast<size_t>(s)]) pool.hold(page(s, length(s) / page_keys));
  return needed;
}

void KeyValueCache::State::append(const NewRows& rows) noexcept {
  for (int64_t s = rows.first; s < rows.last; ++s) {
    const int64_t count = rows.count(s);
    if (count == 0) continue;
    if (paged()) take_pages(s, count);
    write(rows, s, std::max<int64_t>(0, count - options.capacity));
    const int64_t overwritten = std::max<int64_t>(0, length(s) + count - options.capacity);
    length(s) += count - overwritten;
    start(s) = (start(s) + overwritten) % options.capacity;
    positions[static_cast<size_t>(s)] += count;
  }
}

// Gives a sequence pages of its own for `count` more keys.
void KeyValueCache::State::take_pages(int64_t s, int64_t count) noexcept {
  const int64_t held = length(s);
  if (shares_last_page(s)) {
    int32_t& last = page(s, held / page_keys);
    const int32_t copy = pool.take();
    copy_heads(keys, copy, 0, keys, last, 0, held % page_keys);
    copy_heads(values, copy, 0, values, last, 0, held % page_keys);
    pool.release(last);
    last = copy;
  }
  for (int64_t i = pages_of(held); i < pages_of(held + count); ++i) page(s, i) = pool.take();
}

// Writes the rows of a sequence behind its last key, but for the first `skipped` ones.
void KeyValueCache::State::write(const NewRows& rows, int64_t s, int64_t skipped) noexcept {
  const int64_t end = start(s) + length(s) + skipped;  // the slot of the first row
  const int64_t slot = options.end == CacheEnd::circular ? end % options.capacity : end;
  const int64_t row = rows.begin(s) + skipped;
  for_each_piece(slot, rows.count(s) - skipped, page_keys,
                 [&](int64_t done, int64_t i, int64_t in_page, int64_t count) {
                   const int64_t at = paged() ? page(s, i) : s;
                   copy_heads(keys, at, in_page, rows.key, s - rows.first, row + done, count);
                   copy_heads(values, at, in_page, rows.value, s - rows.first, row + done, count);
                 });
}

void KeyValueCache::State::truncate(int64_t s, int64_t new_length) noexcept {
  if (paged())
    for (int64_t i = pages_of(new_length); i < pages_of(length(s)); ++i) {
      pool.release(page(s, i));
      page(s, i) = -1;
    }
  positions[static_cast<size_t>(s)] -= length(s) - new_length;
  length(s) = new_length;
}

void KeyValueCache::State::clear(int64_t s) noexcept {
  truncate(s, 0);
  start(s) = 0;
  positions[static_cast<size_t>(s)] = 0;
}

void KeyValueCache::State::share(int64_t from, int64_t to, int64_t new_length) noexcept {
  for (int64_t i = 0; i < pages_of(new_length); ++i) {
    pool.hold(page(from, i));
    page(to, i) = page(from, i);
  }
  length(to) = positions[static_cast<size_t>(to)] = new_length;
}

}  // namespace rapt
