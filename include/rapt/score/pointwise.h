#pragma once
// The loops of scores that change every score by itself. A learned parameter of such a score has
// one gradient per head, summed here per query.
#include "rapt/tile.h"

namespace rapt {

// Replaces the numbers at tile.scores (scores, or their tangents) by change(numbers, at), for each
// vector of the tile. `at`: where the vector begins in arrays [keys][queries].
template <class V, class Change>
[[gnu::always_inline]] inline void change_scores(Tile<typename V::Element>& t,
                                                 const Change& change) noexcept {
  typename V::Element* const scores = t.scores;
  const int64_t count = t.keys * t.queries;
  for (int64_t at = 0; at < count; at += V::kLanes)
    store(scores + at, change(V::load(scores + at), at));
}

// For each vector of the tile, visit(at, sum) returns the sum over the keys so far plus what its
// pairs add. These sums are added to sums [queries].
template <class V, class Visit>
[[gnu::always_inline]] inline void sum_over_keys(const Tile<typename V::Element>& t,
                                                 typename V::Element* sums,
                                                 const Visit& visit) noexcept {
  const int64_t keys = t.keys, queries = t.queries;
  for (int64_t i = 0; i < queries; i += V::kLanes) {
    V sum = V::set(0);
    for (int64_t j = 0; j < keys; ++j) sum = visit(j * queries + i, sum);
    store(sums + i, add(V::load(sums + i), sum));
  }
}

}  // namespace rapt
