#pragma once
// The distances of the pairs of a tile, for scores that are computed from them: i - j or |i - j| of
// query i and key j, with i counted by the anchor (anchor.h).
#include "rapt/anchor.h"
#include "rapt/tile.h"

namespace rapt {

// Visits V::kLanes queries after the other. For the queries from x on, calls begin(), then
// visit(at, distances) for each key, then end(x). The scores of the vector are at tile.scores + at.
template <class V, class Begin, class Visit, class End>
[[gnu::always_inline]] inline void for_each_distance(const Tile<typename V::Element>& t,
                                                     Anchor anchor, bool absolute,
                                                     const Begin& begin, const Visit& visit,
                                                     const End& end) noexcept {
  using E = typename V::Element;
  const Positions queries = t.query_positions, keys = t.key_positions;
  const int64_t o = offset_of(anchor, *t.head) - keys.start, width = t.queries, count = t.keys;
  const V step = V::set(static_cast<double>(keys.step)), zero = V::set(0);
  const V twice = add(step, step);
  for (int64_t x = 0; x < width; x += V::kLanes) {
    E first[V::kLanes];
    for (int64_t lane = 0; lane < V::kLanes; ++lane)
      first[lane] = static_cast<E>(queries[x + lane] + o);
    // Distances are whole numbers, which are exact in f32 up to 2^24.
    V behind = V::load(first);
    begin();
    const auto visit_next = [&](int64_t at, V d) __attribute__((always_inline)) {
      visit(at, absolute ? max(d, sub(zero, d)) : d);
    };
    // Four keys at a time, because a chain of subtractions would be bound by latency.
    int64_t at = x, left = count;
    for (; left >= 4; left -= 4, at += 4 * width) {
      visit_next(at, behind);
      visit_next(at + width, sub(behind, step));
      visit_next(at + 2 * width, sub(behind, twice));
      visit_next(at + 3 * width, sub(behind, add(twice, step)));
      behind = sub(behind, add(twice, twice));
    }
    for (; left > 0; --left, at += width) {
      visit_next(at, behind);
      behind = sub(behind, step);
    }
    end(x);
  }
}

// The result of of(distances) for a vector of distances: kCount numbers per distance.
template <class V, int kCount>
struct OfDistances {
  V of[kCount];  // [n] holds the nth number of all lanes
};

// Calls visit(at, of(|distances|)) for each vector of the tile. Pairs of a tile share distances: if
// positions rise by 1, `of` is computed once per distance, for up to 64 keys at a time. begin() and
// end(x) are called once per such group of keys and vector of queries.
template <int kCount, class V, class Of, class Begin, class Visit, class End>
[[gnu::always_inline]] inline void for_each_of_distance(const Tile<typename V::Element>& t,
                                                        Anchor anchor, const Of& of,
                                                        const Begin& begin, const Visit& visit,
                                                        const End& end) noexcept {
  using E = typename V::Element;
  constexpr int64_t kKeys = 64;     // keys that share a table
  constexpr int64_t kQueries = 64;  // the widest tile
  static_assert(V::kMaxVectors * V::kLanes <= kQueries);
  const Positions queries = t.query_positions, keys = t.key_positions;
  const int64_t width = t.queries;
  if (queries.step != 1 || keys.step != 1) {
    for_each_distance<V>(
        t, anchor, true, begin, [&](int64_t at, V d) { visit(at, of(d)); }, end);
    return;
  }
  E numbers[kCount][kKeys + kQueries + V::kLanes];  // [n][x]: of the distance `least` + x
  const V lanes = V::set(V::kLanes), zero = V::set(0);
  for (int64_t first = 0; first < t.keys; first += kKeys) {
    const int64_t last = (t.keys < first + kKeys ? t.keys : first + kKeys) - 1;
    const int64_t least = queries[0] + offset_of(anchor, *t.head) - keys[last];
    E start[V::kLanes];
    for (int64_t lane = 0; lane < V::kLanes; ++lane) start[lane] = static_cast<E>(least + lane);
    V d = V::load(start);
    for (int64_t x = 0; x < width + last - first; x += V::kLanes, d = add(d, lanes)) {
      const OfDistances<V, kCount> made = of(max(d, sub(zero, d)));
      for (int n = 0; n < kCount; ++n) store(numbers[n] + x, made.of[n]);
    }
    for (int64_t x = 0; x < width; x += V::kLanes) {
      begin();
      for (int64_t j = first; j <= last; ++j) {
        OfDistances<V, kCount> here;
        for (int n = 0; n < kCount; ++n) here.of[n] = V::load(numbers[n] + last - j + x);
        visit(j * width + x, here);
      }
      end(x);
    }
  }
}

}  // namespace rapt
