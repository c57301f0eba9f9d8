#pragma once
// The bucket of a row from its projections p = x R:
//
//   bucket = argmax [p; -p],   with two hashes: bucket = argmax_1 + buckets_1 argmax_2
//
// Of equal numbers the first one counts. A row with a projection that is not finite goes to the
// last bucket.
#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "method/lsh/lsh_sizes.h"

namespace rapt {

// The hash of projections [columns] into 2 columns buckets; -1 if one is not finite.
template <class E>
int64_t hash_of(const E* projections, int64_t columns) noexcept {
  using Bits = std::conditional_t<sizeof(E) == sizeof(int32_t), int32_t, int64_t>;
  // As integers, sizes of numbers have the order of their bits, and those of Inf and NaN are the
  // largest. So the loop has no branch.
  constexpr Bits kSize = std::numeric_limits<Bits>::max();
  const Bits infinity = std::bit_cast<Bits>(std::numeric_limits<E>::infinity());
  Bits largest = 0;
  for (int64_t c = 0; c < columns; ++c) {
    const Bits size = std::bit_cast<Bits>(projections[c]) & kSize;
    largest = size > largest ? size : largest;
  }
  if (largest >= infinity) return -1;
  const E most = std::bit_cast<E>(largest);
  int64_t negative = -1;
  for (int64_t c = 0; c < columns; ++c) {
    if (projections[c] == most) return c;
    if (projections[c] == -most && negative < 0) negative = c + columns;
  }
  return negative;
}

template <class E>
int32_t bucket_of(const E* projections, const LshSizes& sizes) noexcept {
  const int64_t last = sizes.buckets() - 1, first_columns = sizes.factors[0] / 2;
  const int64_t first = hash_of(projections, first_columns);
  if (first < 0) return static_cast<int32_t>(last);
  if (sizes.factors[1] == 1) return static_cast<int32_t>(first);
  const int64_t second = hash_of(projections + first_columns, sizes.factors[1] / 2);
  return static_cast<int32_t>(second < 0 ? last : first + sizes.factors[0] * second);
}

}  // namespace rapt
