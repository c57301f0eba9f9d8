#include "method/lsh/chunk_slots.h"

#include <algorithm>

#include "method/lsh/sort_rows.h"

namespace rapt {

RoundChunks cut_row(const uint64_t* keys, int64_t rows, const LshSizes& sizes, int64_t round,
                    int32_t* slots, int32_t* numbers) noexcept {
  const int64_t chunks = (rows + sizes.chunk - 1) / sizes.chunk;
  for (int64_t c = 0; c < chunks; ++c)
    for (int64_t i = c * sizes.chunk; i < std::min(rows, (c + 1) * sizes.chunk); ++i) {
      slots[i] = position_of(keys[i]);
      numbers[slots[i] * sizes.rounds + round] = static_cast<int32_t>(c);
    }
  std::fill(slots + rows, slots + chunks * sizes.chunk, kEmptySlot);
  return {chunks, static_cast<int32_t>(chunks > 1 ? chunks - 1 : -1)};
}

RoundChunks cut_buckets(const uint64_t* keys, int64_t rows, const LshSizes& sizes, int64_t round,
                        int32_t* slots, int32_t* numbers) noexcept {
  int64_t slot = 0;  // the next free one
  int32_t number = -1;
  for (int64_t begin = 0; begin < rows;) {
    const int32_t bucket = bucket_of_key(keys[begin]);
    int64_t bucket_end = begin;
    while (bucket_end < rows && bucket_of_key(keys[bucket_end]) == bucket) ++bucket_end;
    number += 2;
    for (; begin < bucket_end; ++number) {
      const int64_t end = std::min(bucket_end, begin + sizes.chunk);
      const int64_t step = sizes.slot_step, offset = (slot % sizes.chunk + step - 1) / step * step;
      int64_t first = slot / sizes.chunk * sizes.chunk + offset;
      if (offset + (end - begin) > sizes.chunk)
        first = (slot + sizes.chunk - 1) / sizes.chunk * sizes.chunk;
      std::fill(slots + slot, slots + first, kEmptySlot);
      for (slot = first; begin < end; ++begin, ++slot) {
        slots[slot] = position_of(keys[begin]);
        numbers[slots[slot] * sizes.rounds + round] = number;
      }
    }
    --number;
  }
  const int64_t chunks = (slot + sizes.chunk - 1) / sizes.chunk;
  std::fill(slots + slot, slots + chunks * sizes.chunk, kEmptySlot);
  return {chunks, -1};
}

}  // namespace rapt
