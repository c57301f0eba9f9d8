#pragma once
// Keys and values in a cache (rapt/cached_keys.h) after validation: where the keys of each sequence
// lie.
#include <algorithm>
#include <cstdint>

#include "base/rare.h"

namespace rapt {

// A matrix of integers, i32 or i64.
struct Integers {
  const void* data;  // null: not given
  bool wide;         // i64
  int64_t row_stride, stride;

  int64_t at(int64_t row, int64_t column) const noexcept {
    const int64_t i = row * row_stride + column * stride;
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

struct KeyPages {
  int64_t page_keys = 0;  // 0: the keys of the call are not in a cache; then nothing else is set
  int64_t columns = 1;    // pages of a sequence
  int64_t key_stride;     // from page to page, in elements
  int64_t value_stride;
  Integers lengths, starts;  // [1, sequences]
  Integers table;            // [sequences, columns]

  bool used() const noexcept { return rare(page_keys > 0); }
  int64_t capacity() const noexcept { return page_keys * columns; }
  int64_t length(int64_t sequence) const noexcept { return lengths.at(0, sequence); }

  // A row of a page, and how many of the next keys follow it there.
  struct Run {
    int64_t page, row, keys;
  };
  // The run that begins at a key of a sequence, of at most `most` keys.
  Run run(int64_t sequence, int64_t key, int64_t most) const noexcept {
    int64_t slot = key + (starts.data ? starts.at(0, sequence) : 0);
    if (slot >= capacity()) slot -= capacity();
    const int64_t column = columns == 1 ? 0 : slot / page_keys, row = slot - column * page_keys;
    return {table.data ? table.at(sequence, column) : sequence, row,
            std::min(most, page_keys - row)};
  }
};

}  // namespace rapt
