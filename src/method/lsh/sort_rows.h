#pragma once
// Sorts the rows of a round by (bucket, position): a stable radix sort of 64-bit keys, the bucket
// in the upper half and the position in the lower one. Positions are in order already, so only the
// digits of the bucket are sorted.
#include <cstdint>

namespace rapt {

inline constexpr int kSortBits = 12;  // of a digit: its counters, 16 KiB, fit an L1

// Sorts `rows` rows. `keys` and `other` have room for `rows` keys. Returns the array, one of the
// two, that holds the sorted keys.
uint64_t* sort_rows(const int32_t* buckets, int64_t rows, int64_t most_buckets, uint64_t* keys,
                    uint64_t* other) noexcept;

inline int32_t position_of(uint64_t key) noexcept { return static_cast<int32_t>(key & 0x7FFFFFFF); }
inline int32_t bucket_of_key(uint64_t key) noexcept { return static_cast<int32_t>(key >> 32); }

}  // namespace rapt
