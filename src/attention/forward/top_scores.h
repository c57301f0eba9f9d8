#pragma once
// The largest scores of each query and their keys, collected during the walk over the keys. Lists
// of up to kMostSorted scores are always sorted, with queries as lanes
// (kernels/vector/captures.simd.h). Longer lists are sorted once, after the last key
// (kernels/vector/long_lists.simd.h). The code is in the header because it is a template over E.
#include <cstring>

#include "attention/tiles/score_tiles.h"
#include "base/rare.h"

namespace rapt {

// Scratch of TopScores: a list of the largest scores of each query.
template <class E>
struct TopPlaces {
  Place<E> scores;       // sorted: tiles [top_k][queries]; long: [unit queries][list_stride]
  Place<E> sorted_keys;  // the same shape, as the bits of an E
  // Of long lists only.
  int64_t capacity = 0;       // of a list
  Place<int32_t> keys;        // [unit queries][list_stride]
  Place<int32_t> counts;      // [unit queries]
  Place<E> bounds;            // [unit queries]
  Place<E> spare;             // [top_k], where one list is sorted
  Place<int32_t> spare_keys;  // the same

  // `longest`: the most keys of a sequence.
  void reserve(ScratchPlan<E>& plan, int64_t top_k, int64_t longest) {
    if (top_k <= kMostSorted) {
      plan.worker.place(scores, {plan.unit, top_k});
      plan.worker.place(sorted_keys, {plan.unit, top_k});
      return;
    }
    capacity = std::min(2 * top_k, longest);
    const int64_t stride = list_stride(capacity, plan.tiling.lanes);
    plan.worker.place(scores, {plan.unit, stride});
    plan.worker.place(keys, {plan.unit, stride});
    plan.worker.place(counts, {plan.unit});
    plan.worker.place(bounds, {plan.unit});
    plan.worker.place(spare, {std::min(top_k, longest)});
    plan.worker.place(spare_keys, {std::min(top_k, longest)});
  }
};

template <class E>
class TopScores {
 public:
  TopScores(const ForwardCall<E>& call, const TopPlaces<E>& places, ScoreTiles<E>& tiles)
      : top_k_(call.captures.top_k),
        sorted_(top_k_ <= kMostSorted),
        call_(call),
        places_(places),
        kernels_(call.kernels.table.captures),
        tiles_(tiles) {}

  bool wanted() const noexcept { return rare(top_k_ > 0); }

  // Empties the lists of a tile, before its first block.
  void begin(const QueryTile<E>& tile) noexcept {
    if (!wanted()) return;
    if (!sorted_) {
      std::fill_n(of(tile, places_.counts), tile.queries, 0);
      std::fill_n(of(tile, places_.bounds), tile.queries, -E(__builtin_inf()));
      return;
    }
    std::fill_n(of(tile, places_.scores), top_k_ * tile.queries, -E(__builtin_inf()));
    std::memset(of(tile, places_.sorted_keys), 0xFF,  // key -1
                static_cast<size_t>(top_k_ * tile.queries) * sizeof(E));
  }

  // Adds the masked scores of a tile to its lists; masked-out pairs have a score of -inf.
  void add(const QueryTile<E>& tile) noexcept {
    if (!wanted()) return;
    if (sorted_)
      kernels_.keep_top(tile.hooks.scores, tile.hooks.keys, tile.queries,
                        tile.hooks.key_positions.start, top_k_, of(tile, places_.scores),
                        of(tile, places_.sorted_keys));
    else
      kernels_.append_to_long(long_lists(tile), top_k_, of(tile, places_.bounds));
  }

  // After the last block, calls visit(first, places, scores [places][queries], key_at) for one part
  // of the lists at a time, from place `first` on. key_at(place within the part, query) is the key
  // there, or -1.
  template <class Visit>
  void for_each_part(const QueryTile<E>& tile, const Visit& visit) noexcept {
    if (!wanted()) return;
    if (sorted_) {
      const E* const keys = of(tile, places_.sorted_keys);
      visit(int64_t{0}, top_k_, of(tile, places_.scores),
            [&](int64_t place, int64_t i) { return key_of(keys + place * tile.queries + i); });
      return;
    }
    const Tile<E> lists = long_lists(tile);
    for (int64_t i = 0; i < tile.positions.count; ++i)
      kernels_.settle_long(lists, i, top_k_, of(tile, places_.bounds), tiles_.at(places_.spare),
                           tiles_.at(places_.spare_keys));
    const Candidates<E>& kept = lists.kept;
    E* const part = tiles_.at(call_.layout.scores);
    for (int64_t first = 0; first < top_k_; first += call_.tiling.block_keys) {
      const int64_t places = std::min(call_.tiling.block_keys, top_k_ - first);
      for (int64_t i = 0; i < tile.queries; ++i)
        for (int64_t place = 0; place < places; ++place)
          part[place * tile.queries + i] = first + place < kept.counts[i]
                                               ? kept.scores[i * kept.stride + first + place]
                                               : -E(__builtin_inf());
      visit(first, places, part, [&](int64_t place, int64_t i) {
        return first + place < kept.counts[i] ? int64_t{kept.keys[i * kept.stride + first + place]}
                                              : int64_t{-1};
      });
    }
  }

 private:
  template <class T>
  T* of(const QueryTile<E>& tile, const Place<T>& place) const noexcept {
    return tiles_.at(place, tile.offset);
  }
  // The key of an entry, stored as the bits of an E; -1: none.
  static int64_t key_of(const E* bits) noexcept {
    std::conditional_t<sizeof(E) == 4, int32_t, int64_t> key;
    std::memcpy(&key, bits, sizeof key);
    return key;
  }

  // The tile, with its long lists as Tile::kept instead of those of a sparse normaliser.
  Tile<E> long_lists(const QueryTile<E>& tile) const noexcept {
    Tile<E> t = tile.hooks;
    t.kept.stride = places_.scores.columns();
    t.kept.capacity = places_.capacity;
    t.kept.scores = of(tile, places_.scores);
    t.kept.keys = of(tile, places_.keys);
    t.kept.counts = of(tile, places_.counts);
    t.kept.open = low_bits(tile.positions.count);
    return t;
  }

  const int64_t top_k_;
  const bool sorted_;  // lists that stay sorted; else long lists, which are sorted at the end
  const ForwardCall<E>& call_;
  const TopPlaces<E>& places_;
  const CaptureKernels<E>& kernels_;
  ScoreTiles<E>& tiles_;
};

}  // namespace rapt
