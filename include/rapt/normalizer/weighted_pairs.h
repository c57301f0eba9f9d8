#pragma once
// The pairs of a tile that have a weight, for the pairs() of sparse normalisers (normalizer.h).
//
// All functions are templates over V: any other function would be one weak symbol for all
// instruction sets.
#include "rapt/normalizer/normalizer.h"

namespace rapt {

struct WeightedPairs {
 protected:
  // Lists, key by key, the allowed pairs for which distance(scores, x) is above 0 or NaN; x is the
  // first query of the vector. SparsePair::weight is that distance. Returns -1 if there are more
  // than `most` pairs; then up to one vector of pairs more than `most` may be written.
  template <class V, class Distance>
  static int64_t list_pairs(const Tile<typename V::Element>& t, const uint64_t* bits, int64_t most,
                            SparsePair<typename V::Element>* pairs,
                            const Distance& distance) noexcept {
    using E = typename V::Element;
    const int64_t keys = t.keys, step = t.queries;
    const int64_t queries = t.query_positions.count;
    const uint64_t present = queries < 64 ? (uint64_t{1} << queries) - 1 : ~uint64_t{0};
    const E* s = t.scores;
    int64_t count = 0;
    for (int64_t j = 0; j < keys; ++j, s += step) {
      for (int64_t x = 0; x < step; x += V::kLanes) {
        const V d = distance(V::load(s + x), x);
        uint64_t found = bits_of(not_at_most(d, V::set(0)));
        if (found == 0) continue;
        found &= (bits ? bits[j] & present : present) >> x;
        E far[V::kLanes];
        store(far, d);
        for (; found; found &= found - 1) {
          const int64_t i = __builtin_ctzll(found);
          pairs[count++] = {far[i], 0, 0, static_cast<int32_t>(j), static_cast<int32_t>(x + i)};
        }
        if (count > most) return -1;
      }
    }
    return count;
  }

  // Turns the distances from list_pairs() into weight, slope and number: calls visit(distances,
  // weights, slopes, numbers) for one vector after the other.
  template <class V, class Visit>
  static void weigh_pairs(SparsePair<typename V::Element>* pairs, int64_t count,
                          const Visit& visit) noexcept {
    using E = typename V::Element;
    for (int64_t c = 0; c < count; c += V::kLanes) {
      const int64_t some = count - c < V::kLanes ? count - c : V::kLanes;
      E far[V::kLanes] = {}, weight[V::kLanes], slope[V::kLanes], number[V::kLanes];
      for (int64_t i = 0; i < some; ++i) far[i] = pairs[c + i].weight;
      visit(V::load(far), weight, slope, number);
      for (int64_t i = 0; i < some; ++i)
        pairs[c + i].weight = weight[i], pairs[c + i].slope = slope[i],
                  pairs[c + i].number = number[i];
    }
  }
};

}  // namespace rapt
