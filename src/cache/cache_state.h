#pragma once
// The memory of a KeyValueCache, and its changes after all checks.
//
// Every kind has rows in pages: key j of sequence s is in slot starts[s] + j, modulo the capacity
// if the cache is circular, and slot i is row i mod page_keys of page i / page_keys of the
// sequence. Without pages a sequence has one page, with its own number.
#include <vector>

#include "cache/new_rows.h"
#include "cache/page_pool.h"
#include "rapt/key_value_cache.h"
#include "rapt/tensor.h"

namespace rapt {

// The options with capacity and value_dim filled in.
// Throws Error(argument, dtype, overflow, unsupported).
KeyValueCacheOptions checked(const KeyValueCacheOptions& options);

struct KeyValueCache::State {
  KeyValueCacheOptions options;
  int64_t page_keys;               // of the memory: capacity without pages
  Tensor own_keys, own_values;     // absent in the caller's memory
  TensorView keys, values;         // [pages, num_kv_heads, page_keys, dim]
  Tensor lengths;                  // [sequences] i64
  Tensor starts;                   // [sequences] i64
  Tensor block_table;              // [sequences, most pages of one] i32; -1: none
  std::vector<int64_t> positions;  // [sequences]: of the next token
  std::vector<bool> copies;        // [sequences]: check_room() has counted a copy of its last page
  PagePool pool;

  explicit State(const KeyValueCacheOptions& checked_options);
  void allocate_rows();
  // Throws Error(shape, dtype, argument, overlap, overflow).
  void use_rows(const TensorView& caller_keys, const TensorView& caller_values);

  bool paged() const noexcept { return options.page_keys > 0; }
  int64_t& length(int64_t s) noexcept { return static_cast<int64_t*>(lengths.data())[s]; }
  int64_t& start(int64_t s) noexcept { return static_cast<int64_t*>(starts.data())[s]; }
  int32_t& page(int64_t s, int64_t i) noexcept {
    return static_cast<int32_t*>(block_table.data())[s * block_table.dims()[1] + i];
  }

  // Checks that rows lie outside of the cache's memory and fit into it.
  // Throws Error(overlap, argument, memory_limit).
  void check_room(const NewRows& rows);
  void append(const NewRows& rows) noexcept;
  void truncate(int64_t s, int64_t length) noexcept;
  void clear(int64_t s) noexcept;
  void share(int64_t from, int64_t to, int64_t length) noexcept;

 private:
  // Pages that `count` keys of a sequence take.
  int64_t pages_of(int64_t count) const noexcept {
    return count / page_keys + (count % page_keys != 0);
  }
  // Do other sequences hold the partly filled last page of a sequence?
  bool shares_last_page(int64_t s) noexcept {
    return length(s) % page_keys != 0 && pool.shared(page(s, length(s) / page_keys));
  }
  int64_t pages_needed(const NewRows& rows);
  void take_pages(int64_t s, int64_t count) noexcept;
  void write(const NewRows& rows, int64_t s, int64_t skipped) noexcept;
};

}  // namespace rapt
