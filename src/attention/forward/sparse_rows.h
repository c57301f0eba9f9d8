#pragma once
// The forward pass of sparse normalisers (rapt/normalizer/normalizer.h). One walk over the keys
// collects, for each query, the scores that may get a weight. Then the normaliser turns each list
// into weights (settle), and the output sums only the values of keys with a weight.
//
// A list holds kShortList scores. A row with more of them (nearly equal scores) is collected again,
// together with the other closed rows of its grain (Tiling::grain queries), with room for all keys:
// O(k_len) memory per worker. The code is in the header because it is a template over E.
#include "attention/tiles/score_tiles.h"

namespace rapt {

// Whether values are added where they lie: only those that have a weight, however far apart.
template <class E>
bool adds_in_place(const Problem& p, const RouteKernels<E>& widening) {
  return widening.values_in_place && p.value.dim_stride == 1 && !p.pages.used();
}

// Scratch of SparseRows: lists of the candidates of each query, and lists with room for all keys of
// the queries of a grain.
template <class E>
struct SparsePlaces {
  int64_t capacity = 0;              // of a list
  Place<E> scores;                   // [unit queries][list_stride]
  Place<int32_t> keys;               // the same
  Place<int32_t> counts;             // tiles [2][queries]
  Place<E> long_scores;              // [grain][list_stride of all keys]
  Place<int32_t> long_keys;          // the same
  Place<int32_t> long_counts;        // [2][grain]
  Place<E> long_state;               // [state_rows][grain]
  Place<E> values;                   // [kPackedValues][value_dim], where values are not in place
  Place<std::byte> rounded_queries;  // of the prefilter, [unit queries][prefilter_query_bytes]

  // `longest`: the most keys of a sequence.
  void reserve(ScratchPlan<E>& plan, int64_t longest) {
    const Problem& p = plan.problem;
    const int64_t grain = plan.tiling.grain;
    const int lanes = plan.tiling.lanes;
    capacity = std::min(kShortList, longest);
    plan.worker.place(scores, {plan.unit, list_stride(capacity, lanes)});
    plan.worker.place(keys, {plan.unit, list_stride(capacity, lanes)});
    plan.worker.place(counts, {plan.unit, 2});
    if (longest > kShortList) {
      plan.worker.place(long_scores, {grain, list_stride(longest, lanes)});
      plan.worker.place(long_keys, {grain, list_stride(longest, lanes)});
      plan.worker.place(long_counts, {2, grain});
      plan.worker.place(long_state, {plan.kernels.normalizer.state_rows, grain});
    }
    if (!adds_in_place(p, *plan.kernels.table.fma[static_cast<int>(p.value.dtype)]))
      plan.worker.place(values, {kPackedValues, p.value_dim});
    if (plan.kernels.prefilter)
      plan.worker.place(rounded_queries, {plan.unit, prefilter_query_bytes(p.head_dim)});
  }
};

template <class E>
class SparseRows {
 public:
  SparseRows(const ForwardCall<E>& call, const SparsePlaces<E>& places, ScoreTiles<E>& tiles)
      : call_(call),
        p_(call.problem),
        n_(call.kernels.normalizer),
        places_(places),
        tiles_(tiles) {}

  // Sets up the lists of a tile, before the normaliser's begin().
  void open(QueryTile<E>& tile) noexcept {
    Candidates<E>& kept = tile.hooks.kept;
    kept.scores = tiles_.at(places_.scores, tile.offset);
    kept.keys = tiles_.at(places_.keys, tile.offset);
    kept.counts = tiles_.at(places_.counts, tile.offset);
    kept.enough = kept.counts + tile.queries;
    kept.capacity = places_.capacity;
    kept.stride = places_.scores.columns();
    kept.open = low_bits(tile.positions.count);
    if (tiles_.prefiltered())
      tiles_.use_prefilter(tile, tiles_.at(places_.rounded_queries, tile.offset));
  }

  // Settles the rows of a tile, after the walk over the keys: output_t [value_dim][queries] +=
  // weights times values.
  void settle(QueryTile<E>& tile, E* output_t) noexcept {
    const uint64_t open = tile.hooks.kept.open;
    settle_open(tile, output_t, tile.queries);
    const int64_t grain = call_.tiling.grain;
    for (int64_t x = 0; x < tile.positions.count && !tiles_.stopped(); x += grain) {
      const uint64_t queries = low_bits(std::min(grain, tile.positions.count - x));
      if (const uint64_t closed = ~(open >> x) & queries) settle_long(tile, x, closed, output_t);
    }
  }

 private:
  void settle_open(QueryTile<E>& tile, E* output_t, int64_t step) noexcept {
    for (uint64_t left = tile.hooks.kept.open; left; left &= left - 1) {
      const int64_t i = __builtin_ctzll(left);
      const int64_t count = n_.settle(call_.normalizer_object, tile.hooks, i);
      const Candidates<E>& kept = tile.hooks.kept;
      E* const weights = kept.scores + i * kept.stride;
      const int32_t* const keys = kept.keys + i * kept.stride;
      if (p_.drop_below > 0)
        for (int64_t c = 0; c < count; ++c)
          if (!tiles_.kept(tile.positions[i], keys[c])) weights[c] = 0;
      add_values(keys, weights, count, output_t + i, step);
      tiles_.relative().add_output_of(tile.positions[i], keys, weights, count, output_t + i, step);
    }
  }

  // Settles the closed rows among the Tiling::grain queries that begin at the tile's query x.
  void settle_long(QueryTile<E>& tile, int64_t x, uint64_t closed, E* output_t) noexcept {
    const int64_t grain = call_.tiling.grain;
    QueryTile<E> part;
    tiles_.begin_tile(part, tile.positions.part(x, std::min(x + grain, tile.positions.count)),
                      call_.tiling.vectors_of_grain(), tile.offset + x);
    part.hooks.state = tiles_.at(places_.long_state);
    Candidates<E>& kept = part.hooks.kept;
    kept.scores = tiles_.at(places_.long_scores);
    kept.keys = tiles_.at(places_.long_keys);
    kept.counts = tiles_.at(places_.long_counts);
    kept.enough = kept.counts + grain;
    kept.capacity = tiles_.sequence().k_len;
    kept.stride = list_stride(kept.capacity, call_.tiling.lanes);
    kept.open = closed;
    n_.begin(call_.normalizer_object, part.hooks);
    tiles_.for_each_block(&part, 1, Values::skip,
                          [&](QueryTile<E>& one, KeyBlock&, const TileKeys&) {
                            n_.collect(call_.normalizer_object, one.hooks);
                          });
    if (tiles_.stopped()) return;
    settle_open(part, output_t + x, tile.queries);
    for (int r = 0; r < n_.state_rows; ++r)
      for (uint64_t left = closed; left; left &= left - 1) {
        const int64_t i = __builtin_ctzll(left);
        tile.hooks.state[r * tile.queries + x + i] = part.hooks.state[r * grain + i];
      }
  }

  // Adds weights times values to the output of one query. Reads the values in place, or converts
  // kPackedValues rows at a time to E.
  void add_values(const int32_t* keys, const E* weights, int64_t count, E* column,
                  int64_t step) noexcept {
    const KernelTable<E>& table = call_.kernels.table;
    const RouteKernels<E>& widening = *table.fma[static_cast<int>(p_.value.dtype)];
    const auto row = [&](int64_t key) { return tiles_.value_row(key); };
    if (adds_in_place(p_, widening)) {
      const DenseRows<E> rows{reinterpret_cast<const E*>(row(0)), p_.value.row_stride};
      table.sparse.add_rows(rows, keys, weights, count, p_.value_dim, column, step);
      return;
    }
    E* const packed = tiles_.at(places_.values);
    int32_t places[kPackedValues];
    for (int32_t c = 0; c < kPackedValues; ++c) places[c] = c;
    for (int64_t begin = 0; begin < count; begin += kPackedValues) {
      const int64_t some = std::min<int64_t>(kPackedValues, count - begin);
      for (int64_t c = 0; c < some; ++c)
        widening.pack_values(row(keys[begin + c]), p_.value.row_stride, p_.value.dim_stride, 1,
                             p_.value_dim, packed + c * p_.value_dim);
      table.sparse.add_rows({packed, p_.value_dim}, places, weights + begin, some, p_.value_dim,
                            column, step);
    }
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const NormalizerKernels<E>& n_;
  const SparsePlaces<E>& places_;
  ScoreTiles<E>& tiles_;
};

}  // namespace rapt
