#include "method/lsh/sort_rows.h"

#include <algorithm>
#include <utility>

namespace rapt {

uint64_t* sort_rows(const int32_t* buckets, int64_t rows, int64_t most_buckets, uint64_t* keys,
                    uint64_t* other) noexcept {
  constexpr uint64_t kDigits = 1 << kSortBits;
  for (int64_t i = 0; i < rows; ++i)
    keys[i] = static_cast<uint64_t>(buckets[i]) << 32 | static_cast<uint64_t>(i);
  for (int shift = 32; most_buckets > 1;
       shift += kSortBits, most_buckets = (most_buckets + kDigits - 1) >> kSortBits) {
    uint32_t begin[kDigits] = {};
    for (int64_t i = 0; i < rows; ++i) ++begin[keys[i] >> shift & (kDigits - 1)];
    uint32_t sum = 0;
    for (uint32_t& count : begin) sum += std::exchange(count, sum);
    for (int64_t i = 0; i < rows; ++i) other[begin[keys[i] >> shift & (kDigits - 1)]++] = keys[i];
    std::swap(keys, other);
  }
  return keys;
}

}  // namespace rapt
