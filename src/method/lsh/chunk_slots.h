#pragma once
// Cuts the sorted row of a round into chunks: which row lies in which slot, and the number of each
// row's chunk, by which a mask knows who met whom:
//
//   query i met key j in a round   if   number(j) = number(i)  or  number(j) = before(number(i))
//
// Numbers of two buckets that may not meet are not neighbours.
#include <cstdint>

#include "method/lsh/lsh_sizes.h"

namespace rapt {

inline constexpr int32_t kEmptySlot = -1;

// The chunks of a round.
struct RoundChunks {
  int64_t chunks = 0;         // in slots
  int32_t before_first = -1;  // the number of the chunk before number 0; -1: none
  int32_t before(int32_t number) const noexcept { return number > 0 ? number - 1 : before_first; }
};

// `keys` [rows]: sorted (sort_rows.h). slots [most_chunks * chunk]: positions, or kEmptySlot.
// numbers: that of position p at p * rounds + round.
RoundChunks cut_row(const uint64_t* keys, int64_t rows, const LshSizes& sizes, int64_t round,
                    int32_t* slots, int32_t* numbers) noexcept;
RoundChunks cut_buckets(const uint64_t* keys, int64_t rows, const LshSizes& sizes, int64_t round,
                        int32_t* slots, int32_t* numbers) noexcept;

}  // namespace rapt
