#pragma once
// Converts between tiles by key and tiles by distance. The pair of key j and query i of a tile is
// in row
//
//   x = j + queries - 1 - i,   0 <= x < keys + queries - 1
//
// of the tile by distance, in the same lane. So lane l moves by l rows. log2(lanes) steps on rows
// in registers do this: in the step for bit s, lanes whose number has the bit s read from s rows
// away. A gather would need a load per lane.
#include "kernels/inlining.h"
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

// Rows that are computed at once; kLanes - 1 more must fit into the registers.
template <class V>
constexpr int kShearedRows = V::kLanes >= 8 ? V::kLanes / 2 : V::kLanes;

// The lanes whose number has bit `bit`.
template <class V>
constexpr uint64_t lanes_with(int64_t bit) {
  uint64_t lanes = 0;
  for (int64_t l = 0; l < V::kLanes; ++l)
    if (l & bit) lanes |= uint64_t{1} << l;
  return lanes;
}

// Lane l of r[kLanes - 1 + y] becomes lane l of r[kLanes - 1 + y - l].
template <class V, int Bit = V::kLanes / 2, size_t Rows>
RAPT_INLINE void take_from_before(V (&r)[Rows]) {
  if constexpr (Bit > 0) {
    constexpr int kFirst = static_cast<int>(V::kLanes) - Bit;  // rows that later steps read
    UNROLL_FOR (int t = Rows - 1; t >= kFirst; --t)
      r[t] = select(mask_of(lanes_with<V>(Bit)), r[t - Bit], r[t]);
    take_from_before<V, Bit / 2>(r);
  }
}
// Lane l of r[y] becomes lane l of r[y + l].
template <class V, int Bit = V::kLanes / 2, size_t Rows>
RAPT_INLINE void take_from_behind(V (&r)[Rows]) {
  if constexpr (Bit > 0) {
    constexpr int kEnd = static_cast<int>(Rows) - static_cast<int>(V::kLanes) + Bit;
    UNROLL_FOR (int t = 0; t < kEnd; ++t)
      r[t] = select(mask_of(lanes_with<V>(Bit)), r[t + Bit], r[t]);
    take_from_behind<V, Bit / 2>(r);
  }
}

// scores [keys][queries] += the numbers of the pairs; block_max becomes the maximum over the keys.
// Reads kLanes rows beyond the last distance, whose contents do not matter.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_by_distance(const E* by_distance, int64_t keys, int64_t queries, E* scores,
                                   E* block_max) noexcept {
  constexpr int kRows = kShearedRows<V>;
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    const E* from = by_distance + (queries - x - V::kLanes) * queries + x;
    V max_v = V::set(-__builtin_inf());
    for (int64_t j = 0; j < keys; j += kRows, from += kRows * queries) {
      V r[kRows + V::kLanes - 1];
      UNROLL_FOR (int t = 0; t < kRows + V::kLanes - 1; ++t) r[t] = V::load(from + t * queries);
      take_from_before(r);
      UNROLL_FOR (int y = 0; y < kRows; ++y) {
        if (j + y >= keys) break;
        E* const s = scores + (j + y) * queries + x;
        const V sum = add(V::load(s), r[V::kLanes - 1 + y]);
        store(s, sum);
        max_v = max(max_v, sum);
      }
    }
    store(block_max + x, max_v);
  }
}

// by_distance [keys + queries - 1][queries] = the numbers of the pairs; 0 where there is no pair.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void take_by_distance(const E* tile, int64_t keys, int64_t queries,
                                    E* by_distance) noexcept {
  constexpr int kRows = kShearedRows<V>;
  const int64_t distances = keys + queries - 1;
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    const int64_t shift = queries - 1 - x;  // the key of lane 0 in row `shift` is 0
    for (int64_t d = 0; d < distances; d += kRows) {
      const int64_t first = d - shift;
      const int64_t some = distances - d < kRows ? distances - d : kRows;
      V r[kRows + V::kLanes - 1];
      UNROLL_FOR (int t = 0; t < kRows + V::kLanes - 1; ++t)
        r[t] = first + t >= 0 && first + t < keys ? V::load(tile + (first + t) * queries + x)
                                                  : V::splat(0);
      take_from_behind(r);
      UNROLL_FOR (int y = 0; y < kRows; ++y) {
        if (y >= some) break;
        store(by_distance + (d + y) * queries + x, r[y]);
      }
    }
  }
}

// Adds row [queries] to the scores of every key, and to their maxima block_max.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_row(const E* row, int64_t keys, int64_t queries, E* scores,
                           E* block_max) noexcept {
  for (int64_t x = 0; x < queries; x += V::kLanes) {
    const V more = V::load(row + x);
    for (int64_t j = 0; j < keys; ++j) {
      E* const s = scores + j * queries + x;
      store(s, add(V::load(s), more));
    }
    store(block_max + x, add(V::load(block_max + x), more));
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA
