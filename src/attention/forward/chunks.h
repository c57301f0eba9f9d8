#pragma once
// Long rows, summed in chunks of kChunkKeys keys that are counted from key 0 of their sequence. A
// row begins each chunk anew, and the sums of a chunk are merged into those of the chunks before:
//
//   m = max(m_a, m_b)     sums = e^(m_a - m) sums_a + e^(m_b - m) sums_b
//
// for the sum of the weights, the output and the entropy of softmax; other normalisers have their
// own merge() (rapt/normalizer/normalizer.h). Rows whose normaliser has none are summed at once.
//
// Every call does so, whoever sums the chunks. Where there are fewer units than threads, tasks sum
// different chunks of a unit, and a second pass merges them in the order of their keys. So a row
// has the same bits for any number of threads, and in a prefill, a chunked prefill and a decode
// step. They do not depend on other rows of a tile either: merging a side without keys changes no
// bit of the other.
//
// Source: the parts of keys are those of Dao et al. 2023, "Flash-Decoding for long-context
// inference". The code is in the header because it is a template over E.
#include "attention/tiles/score_tiles.h"
#include "base/rare.h"

namespace rapt {

// The sums of a query tile over keys, and where they lie.
template <class E>
struct TileSums {
  E* state;           // [state_rows][queries] of the normaliser
  E* output_t;        // [value_dim][queries]
  E* entropy;         // [queries]; null: not requested
  uint64_t attended;  // bit i: query i has attended to a key
};

template <class E>
struct ChunkPlaces {
  // Of a worker that sums whole units:
  Place<E> state;             // tiles [state_rows][queries] of one chunk
  Place<E> output_t;          // tiles [value_dim][queries]
  Place<E> entropy;           // [unit queries]
  Place<TileSums<E>> totals;  // [tiles]: the sums of the chunks before
  // Of split units: the sums of all chunks.
  int64_t unit = 0;              // queries of a unit
  CallPlace<E> all_states;       // [units][chunks] tiles [state_rows][queries]
  CallPlace<E> all_outputs;      // [units][chunks] tiles [value_dim][queries]
  CallPlace<E> all_entropies;    // [units][chunks][unit queries]
  CallPlace<uint64_t> attended;  // [units][chunks][tiles]

  void reserve(ScratchPlan<E>& plan, bool with_entropy) {
    const Tiling& t = plan.tiling;
    if (!rare(t.chunks > 1)) return;
    const int64_t state_rows = plan.kernels.normalizer.state_rows, dims = plan.problem.value_dim;
    if (!t.splits()) {
      plan.worker.place(state, {plan.unit, state_rows});
      plan.worker.place(output_t, {plan.unit, dims});
      if (with_entropy) plan.worker.place(entropy, {plan.unit});
      plan.worker.place(totals, {plan.tiles});
      return;
    }
    unit = plan.unit;
    const int64_t chunks = plan.problem.heads * t.units_per_head * t.chunks;
    plan.call.place(all_states, {chunks, unit, state_rows});
    plan.call.place(all_outputs, {chunks, unit, dims});
    if (with_entropy) plan.call.place(all_entropies, {chunks, unit});
    plan.call.place(attended, {chunks, plan.tiles});
  }
};

template <class E>
class ChunkedRows {
 public:
  ChunkedRows(const ForwardCall<E>& call, const ChunkPlaces<E>& places, ScoreTiles<E>& tiles)
      : call_(call), n_(call.kernels.normalizer), places_(places), tiles_(tiles) {}

  // Makes the tile add to these sums.
  static void use(QueryTile<E>& tile, const TileSums<E>& sums) noexcept {
    tile.hooks.state = sums.state;
    tile.hooks.entropy = sums.entropy;
    tile.output_t = sums.output_t;
    tile.attended = sums.attended;
  }

  // Begins the sums of a tile, before its first key.
  void begin(QueryTile<E>& tile) const noexcept {
    clear_output(tile);
    if (tiles_.group().used() && n_.head_in_begin)
      tiles_.group().begin_state(tile);
    else
      n_.begin(call_.normalizer_object, tile.hooks);
  }

  // Sums the rows of tiles that have begun. add(keys) adds these keys to the sums of each tile.
  template <class Add>
  void sum(QueryTile<E>* tile, int64_t count, const Add& add) noexcept {
    if (!rare(n_.merge && tiles_.sequence().k_len > kChunkKeys)) {
      add(kAllKeys);
      return;
    }
    TileSums<E>* const totals = tiles_.at(places_.totals);
    for (KeyWalk walk = tiles_.walk_chunks(tile, count, kAllKeys);
         walk.next() && !tiles_.stopped();) {
      for (int64_t i = 0; i < count; ++i) {
        totals[i] = sums_of(tile[i]);
        if (!is_first(tile[i], walk.begin())) begin_part(tile[i], part_of(tile[i]));
      }
      add(keys_at(walk.begin()));
      for (int64_t i = 0; i < count; ++i) {
        const TileSums<E> part = sums_of(tile[i]);
        if (part.output_t == totals[i].output_t) continue;
        use(tile[i], totals[i]);
        merge(tile[i], part);
      }
    }
  }

  // Sums the chunks of one task of a split unit.
  template <class Add>
  void sum_part(int64_t unit, int64_t part, QueryTile<E>* tile, int64_t count,
                const Add& add) noexcept {
    const Tiling& t = call_.tiling;
    const int64_t first = part * t.chunks_per_task;
    const int64_t end = std::min(first + t.chunks_per_task, t.chunks);
    for (int64_t chunk = first; chunk < end; ++chunk)
      std::fill_n(attended_in(unit, chunk), count, uint64_t{0});
    // The sums of the first chunk exist even if no query attends to it.
    for (int64_t i = 0; first == 0 && i < count; ++i) {
      use(tile[i], sums_in(unit, 0, tile[i], 0));
      begin(tile[i]);
    }
    const KeyRange within{first * kChunkKeys, end * kChunkKeys};
    for (KeyWalk walk = tiles_.walk_chunks(tile, count, within);
         walk.next() && !tiles_.stopped();) {
      const int64_t chunk = walk.begin() / kChunkKeys;
      for (int64_t i = 0; chunk > 0 && i < count; ++i)
        begin_part(tile[i], sums_in(unit, chunk, tile[i], 0));
      add(keys_at(walk.begin()));
      for (int64_t i = 0; i < count; ++i) attended_in(unit, chunk)[i] = tile[i].attended;
    }
  }

  // Merges the chunks of a split unit, after all its tasks. The tiles then have the sums of whole
  // rows.
  void merge_all(int64_t unit, QueryTile<E>* tile, int64_t count) noexcept {
    for (int64_t i = 0; i < count; ++i) {
      use(tile[i], sums_in(unit, 0, tile[i], attended_in(unit, 0)[i]));
      for (int64_t chunk = 1; chunk < call_.tiling.chunks; ++chunk)
        merge(tile[i], sums_in(unit, chunk, tile[i], attended_in(unit, chunk)[i]));
    }
  }

 private:
  static KeyRange keys_at(int64_t begin) noexcept { return {begin, begin + kChunkKeys}; }

  static TileSums<E> sums_of(const QueryTile<E>& tile) noexcept {
    return {tile.hooks.state, tile.output_t, tile.hooks.entropy, tile.attended};
  }
  TileSums<E> part_of(const QueryTile<E>& tile) const noexcept {
    const int64_t at = tile.offset;
    return {tiles_.at(places_.state, at), tiles_.at(places_.output_t, at),
            call_.captures.entropy ? tiles_.at(places_.entropy, at) : nullptr, 0};
  }
  TileSums<E> sums_in(int64_t unit, int64_t chunk, const QueryTile<E>& tile,
                      uint64_t attended) const noexcept {
    const int64_t nth = unit * call_.tiling.chunks + chunk, at = nth * places_.unit + tile.offset;
    return {call_.at(places_.all_states, at), call_.at(places_.all_outputs, at),
            call_.captures.entropy ? call_.at(places_.all_entropies, nth) + tile.offset : nullptr,
            attended};
  }
  uint64_t* attended_in(int64_t unit, int64_t chunk) const noexcept {
    return call_.at(places_.attended, unit * call_.tiling.chunks + chunk);
  }

  // Whether the sums of the tile are as they began, so that a chunk can be added to them without
  // a merge. What begin() puts into the state beside keys belongs to the chunk of key 0.
  bool is_first(const QueryTile<E>& tile, int64_t first_key) const noexcept {
    return tile.attended == 0 && (first_key == 0 || n_.begin_part == n_.begin);
  }

  void clear_output(const QueryTile<E>& tile) const noexcept {
    std::fill_n(tile.output_t, call_.problem.value_dim * tile.queries, E(0));
  }

  void begin_part(QueryTile<E>& tile, const TileSums<E>& sums) const noexcept {
    use(tile, sums);
    clear_output(tile);
    n_.begin_part(call_.normalizer_object, tile.hooks);
  }

  // Merges a part into the sums of the tile.
  void merge(QueryTile<E>& total, const TileSums<E>& part) const noexcept {
    if (part.attended == 0) return;
    Tile<E> hooks = total.hooks;
    hooks.state = part.state;
    hooks.entropy = part.entropy;
    E* const factor = tiles_.row(kFactor);
    E* const part_factor = tiles_.row(kMultiplier);
    n_.merge(call_.normalizer_object, total.hooks, hooks, factor, part_factor);
    call_.kernels.table.row_transforms.combine(
        total.output_t, part.output_t, call_.problem.value_dim, factor, part_factor, total.queries);
    total.attended |= part.attended;
  }

  const ForwardCall<E>& call_;
  const NormalizerKernels<E>& n_;
  const ChunkPlaces<E>& places_;
  ScoreTiles<E>& tiles_;
};

}  // namespace rapt
