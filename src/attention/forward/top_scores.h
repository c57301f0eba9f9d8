#pragma once
// The largest scores of each query and their keys, collected during the walk over the keys. Lists
// of up to kMostSorted scores are always sorted, with queries as lanes
// (kernels/vector/captures.simd.h). Longer lists are sorted once, after the last key
// (kernels/vector/long_lists.simd.h). The code is in the header because it is a template over E.
#include <cstring>

#include "attention/tiles/score_tiles.h"

namespace rapt {

template <class E>
class TopScores {
 public:
  TopScores(const ForwardCall<E>& call, ScoreTiles<E>& tiles)
      : top_k_(call.captures.top_k),
        call_(call),
        layout_(call.layout.top),
        kernels_(call.kernels.table.captures),
        tiles_(tiles) {}

  bool wanted() const noexcept { return top_k_ > 0; }

  // Empties the lists of a tile, before its first block.
  void begin(const QueryTile<E>& tile) noexcept {
    if (!wanted()) return;
    if (!layout_.sorted) {
      std::fill_n(counts(tile), tile.queries, 0);
      std::fill_n(bounds(tile), tile.queries, -E(__builtin_inf()));
      return;
    }
    std::fill_n(sorted(tile, layout_.scores), top_k_ * tile.queries, -E(__builtin_inf()));
    std::memset(sorted(tile, layout_.keys), 0xFF,  // key -1
                static_cast<size_t>(top_k_ * tile.queries) * sizeof(E));
  }

  // Adds the masked scores of a tile to its lists; masked-out pairs have a score of -inf.
  void add(const QueryTile<E>& tile) noexcept {
    if (!wanted()) return;
    if (layout_.sorted)
      kernels_.keep_top(tile.hooks.scores, tile.hooks.keys, tile.queries,
                        tile.hooks.key_positions.start, top_k_, sorted(tile, layout_.scores),
                        sorted(tile, layout_.keys));
    else
      kernels_.append_to_long(long_lists(tile), top_k_, bounds(tile));
  }

  // After the last block, calls visit(first, places, scores [places][queries], key_at) for one part
  // of the lists at a time, from place `first` on. key_at(place within the part, query) is the key
  // there, or -1.
  template <class Visit>
  void for_each_part(const QueryTile<E>& tile, const Visit& visit) noexcept {
    if (!wanted()) return;
    if (layout_.sorted) {
      const E* const keys = sorted(tile, layout_.keys);
      visit(int64_t{0}, top_k_, sorted(tile, layout_.scores),
            [&](int64_t place, int64_t i) { return key_of(keys + place * tile.queries + i); });
      return;
    }
    const Tile<E> lists = long_lists(tile);
    for (int64_t i = 0; i < tile.positions.count; ++i)
      kernels_.settle_long(lists, i, top_k_, bounds(tile), scratch<E>(layout_.spare),
                           scratch<int32_t>(layout_.spare_keys));
    const Candidates<E>& kept = lists.kept;
    E* const part = scratch<E>(call_.layout.scores);
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
  T* scratch(size_t offset) const noexcept {
    return tiles_.template scratch<T>(offset);
  }
  E* sorted(const QueryTile<E>& tile, size_t list) const noexcept {
    return scratch<E>(list) + tile.offset * top_k_;
  }
  // The key of an entry, stored as the bits of an E; -1: none.
  static int64_t key_of(const E* bits) noexcept {
    std::conditional_t<sizeof(E) == 4, int32_t, int64_t> key;
    std::memcpy(&key, bits, sizeof key);
    return key;
  }

  E* bounds(const QueryTile<E>& tile) const noexcept {
    return scratch<E>(layout_.bounds) + tile.offset;
  }
  int32_t* counts(const QueryTile<E>& tile) const noexcept {
    return scratch<int32_t>(layout_.counts) + tile.offset;
  }
  // The tile, with its long lists as Tile::kept instead of those of a sparse normaliser.
  Tile<E> long_lists(const QueryTile<E>& tile) const noexcept {
    Tile<E> t = tile.hooks;
    t.kept.stride = list_stride(layout_.capacity, call_.tiling.lanes);
    t.kept.capacity = layout_.capacity;
    t.kept.scores = scratch<E>(layout_.scores) + tile.offset * t.kept.stride;
    t.kept.keys = scratch<int32_t>(layout_.keys) + tile.offset * t.kept.stride;
    t.kept.counts = counts(tile);
    t.kept.open = low_bits(tile.positions.count);
    return t;
  }

  const int64_t top_k_;
  const ForwardCall<E>& call_;
  const TopScratch& layout_;
  const CaptureKernels<E>& kernels_;
  ScoreTiles<E>& tiles_;
};

}  // namespace rapt
