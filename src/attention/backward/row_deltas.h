#pragma once
// Values per query that depend on its whole row: delta, and the row's contribution to the gradients
// of the normaliser's parameters. Formulas: rapt/backward.h; of sparse normalisers,
// rapt/normalizer/row_threshold.h. The code is in the header because it is a template over E.
#include "attention/backward/gradient_keys.h"
#include "attention/backward/gradient_rows.h"
#include "attention/backward/query_unit.h"
#include "attention/backward/weight_gradients.h"

namespace rapt {

// Scratch of RowDeltas.
template <class E>
struct RowDeltaPlaces {
  Place<E> d_output_t;     // [value_dim][queries]: a tile, if the route rounds
  Place<E> other_weights;  // [block_keys][queries]: the caller's d_weights
  Place<E> slope_sums;     // [2][4][queries]: sums for the delta of a sparse normaliser
  // Lists of sparse normalisers with a cut:
  int64_t capacity = 0;   // of a list; 0: there are none
  Place<E> scores;        // [queries][list_stride]
  Place<int32_t> keys;    // the same
  Place<int32_t> counts;  // [2][queries]

  void reserve(GradientScratch<E>& scratch) {
    const NormalizerKernels<E>& normalizer = scratch.kernels.normalizer;
    const Tiling& t = scratch.tiling;
    auto& memory = scratch.worker;
    const int64_t tile = scratch.tile;
    if (scratch.kernels.route.rounds()) memory.place(d_output_t, {scratch.problem.value_dim, tile});
    memory.place(other_weights, {scratch.tile_scores()});
    if (normalizer.add_slopes) memory.place(slope_sums, {2, 4, tile});
    if (normalizer.find_cut)
      capacity = normalizer.cut_capacity(scratch.options.normalizer.object,
                                         scratch.plan.longest_key, t.block_keys);
    if (capacity == 0) return;
    memory.place(scores, {tile, list_stride(capacity, t.lanes)});
    memory.place(keys, {tile, list_stride(capacity, t.lanes)});
    memory.place(counts, {2, tile});
  }
};

template <class E>
class RowDeltas {
 public:
  RowDeltas(const BackwardCall<E>& call, ScoreTiles<E>& tiles, GradientKeys<E>& keys,
            const WeightGradients<E>& weight_gradients, const GradientRows<E>& rows,
            SparsePairs<E>& sparse)
      : call_(call),
        p_(call.problem()),
        plan_(call.plan),
        arrays_(call.layout.tiles),
        places_(call.layout.row_deltas),
        kernels_(call.forward.kernels),
        gradients_(kernels_.table.gradients),
        tiles_(tiles),
        keys_(keys),
        weight_gradients_(weight_gradients),
        rows_(rows),
        sparse_(sparse),
        kept_factor_(static_cast<E>(p_.kept_factor())) {}

  // delta = rowsum(d_output o output) + rowsum(weights o d_weights) - d_statistic. Sparse pairs
  // that are found on the way go to `kept`.
  void compute(QueryTile<E>& tile, const std::byte* d_output_t, const E* statistic, E* delta,
               const KeptPairs<E>& kept) noexcept {
    if (kept.count) *kept.count = KeptPairs<E>::kIncomplete;
    if (kernels_.normalizer.add_slopes) {
      make_sparse(tile, d_output_t, statistic, delta, kept);
      return;
    }
    if (kernels_.normalizer.find_cut) find_cut(tile, delta + tile.queries);
    const Operand &output = call_.inputs.output, &d_output = call_.inputs.d_output;
    E* const output_t = tiles_.at(arrays_.rows_t);
    pack_rows_t(rows_.widening(output), tiles_, output, tile, p_.value_dim, output_t);
    auto* d_output_of_tile = reinterpret_cast<const E*>(d_output_t);
    if (kernels_.route.rounds()) {
      E* const packed = tiles_.at(places_.d_output_t);
      pack_rows_t(rows_.widening(d_output), tiles_, d_output, tile, p_.value_dim, packed);
      d_output_of_tile = packed;
    }
    std::fill_n(delta, tile.queries, E(0));
    gradients_.add_dots(d_output_of_tile, output_t, p_.value_dim, tile.queries, delta);
    if (call_.inputs.d_weights.data) add_weight_dots(tile, statistic, delta);
    if (!call_.inputs.d_statistic.data) return;
    E* const d_statistic = tiles_.row(kStatistic);
    read_column(tiles_, call_.inputs.d_statistic, tile, E(0), d_statistic);
    for (int64_t i = 0; i < tile.queries; ++i) delta[i] -= d_statistic[i];
  }

  // Adds what the tile's rows contribute to the gradients of the normaliser's parameters to sums
  // [parameters].
  void add_normalizer(QueryTile<E>& tile, const E* statistic, const E* delta,
                      double* sums) noexcept {
    E* const lanes = tiles_.at(arrays_.parameter_sums);
    const int64_t count = call_.wanted.normalizer_head_parameter_count;
    if (kernels_.normalizer.backward_rows) {  // else make_sparse() has computed them
      std::fill_n(lanes, count * tile.queries, E(0));
      kernels_.normalizer.backward_rows(call_.forward.normalizer_object, tile.hooks, statistic,
                                        delta, lanes);
    }
    for (int64_t n = 0; n < count; ++n)
      for (int64_t i = 0; i < tile.positions.count; ++i)
        sums[n] += static_cast<double>(lanes[n * tile.queries + i]);
  }

  // Gradients of the weights of a tile; 0 where dropout drops the pair.
  void make_d_weights(QueryTile<E>& tile, const std::byte* d_output_t, Positions keys,
                      E* d) noexcept {
    const Rows values = keys_.values(keys.start);
    kernels_.route.products[tile.vectors - 1].scores(d_output_t, values.data, values.stride,
                                                     keys.count, p_.value_dim, E(1), d,
                                                     tiles_.row(kBlockMax));
    const BlockBits outside = keys_.block_of(keys).value_outside;
    if (tile.d_output_outside != 0 || outside.any())
      tiles_.exact().replace_scores(rows_.d_output_at(tile.positions), tile.positions.count,
                                    tile.d_output_outside, tiles_.rows_at(p_.value, keys.start),
                                    keys.count, outside, p_.value_dim, E(1), tile.vectors, d,
                                    tiles_.row(kBlockMax));
    tiles_.relative().add_d_weights(d_output_t, tile.vectors, tile.positions, keys, d);
    if (p_.drop_below > 0)
      kernels_.table.dropout.keep(d, tiles_.kept(tile), keys.count, tile.queries, kept_factor_);
    if (!weight_gradients_.any(tile.positions)) return;
    E* const other = tiles_.at(places_.other_weights);
    weight_gradients_.read(tile.positions, keys, tile.queries, other);
    for (int64_t x = 0; x < keys.count * tile.queries; ++x) d[x] += other[x];
  }

 private:
  // delta += rowsum(weights o d_weights), computed in a walk of its own over the keys.
  void add_weight_dots(QueryTile<E>& tile, const E* statistic, E* delta) noexcept {
    if (!weight_gradients_.any(tile.positions)) return;
    const auto keep = kernels_.table.dropout.keep;
    E *const weights = tiles_.at(arrays_.weights), *const unused = tiles_.at(arrays_.d_weights);
    E* const other = tiles_.at(places_.other_weights);
    uint64_t* const bits = tiles_.at(arrays_.bits);
    for_each_block(tile, bits, [&](TileKeys& tile_keys) {
      const Positions keys = tile_keys.positions;
      tiles_.compute_scores(tile, keys_.block_of(keys), tile_keys, weights, nullptr,
                            ScoreTiles<E>::Keep::nothing);
      std::fill_n(unused, keys.count * tile.queries, E(0));
      kernels_.normalizer.backward(call_.forward.normalizer_object, tile.hooks, unused, statistic,
                                   delta);
      weight_gradients_.read(tile.positions, keys, tile.queries, other);
      if (tile_keys.partial) {
        keep(weights, bits, keys.count, tile.queries, E(1));
        keep(other, bits, keys.count, tile.queries, E(1));
      }
      gradients_.add_dots(weights, other, keys.count, tile.queries, delta);
    });
  }

  // Computes delta of a sparse normaliser, the mean of d_weights weighted by the slopes, in a walk
  // of its own over the keys.
  void make_sparse(QueryTile<E>& tile, const std::byte* d_output_t, const E* statistic, E* delta,
                   const KeptPairs<E>& kept) noexcept {
    const NormalizerKernels<E>& n = kernels_.normalizer;
    E *const scores = tiles_.at(arrays_.weights), *const d = tiles_.at(arrays_.d_weights);
    // Sums [4][queries], and those of one block: rounding errors grow with the number of blocks,
    // not of keys.
    E* const sums = tiles_.at(places_.slope_sums);
    const int64_t count = 4 * tile.queries;
    E* const of_block = sums + count;
    uint64_t* const bits = tiles_.at(arrays_.bits);
    const bool wants_parameters = call_.wanted.normalizer_parameters;
    std::fill_n(sums, count, E(0));
    if (kept.count && sparse_.possible()) *kept.count = 0;
    SparseGradients<E> pairs = {};
    pairs.value_dim = p_.value_dim, pairs.queries = tile.queries, pairs.numbers = wants_parameters;
    if (sparse_.possible())
      pairs.d_output = SparsePairs<E>::dense(rows_.d_output_rows(tile.positions));
    E space[kMaxTileQueries];
    const E* const bounds = tiles_.bounds_of(tile, statistic, nullptr, space);
    for_each_block(tile, bits, [&](TileKeys& tile_keys) {
      const Positions keys = tile_keys.positions;
      tiles_.compute_scores(tile, keys_.block_of(keys), tile_keys, scores, nullptr,
                            ScoreTiles<E>::Keep::nothing, bounds);
      std::fill_n(of_block, count, E(0));
      const int64_t found = sparse_.find(tile, tile_keys, statistic, nullptr, wants_parameters);
      sparse_.keep(kept, tile, found);
      if (found != SparsePairs<E>::kTooMany) {
        pairs.value = SparsePairs<E>::dense(keys_.values(keys.start));
        sparse_.add_slopes(found, pairs, of_block);
      } else {
        if (tile_keys.partial)
          kernels_.table.exclude(scores, bits, keys.count, tile.queries, tiles_.row(kBlockMax));
        make_d_weights(tile, d_output_t, keys, d);
        n.add_slopes(call_.forward.normalizer_object, tile.hooks, d, statistic, wants_parameters,
                     of_block);
      }
      for (int64_t x = 0; x < count; ++x) sums[x] += of_block[x];
    });
    E* const d_statistic = call_.inputs.d_statistic.data ? tiles_.row(kStatistic) : nullptr;
    if (d_statistic) read_column(tiles_, call_.inputs.d_statistic, tile, E(0), d_statistic);
    n.delta(call_.forward.normalizer_object, tile.hooks, sums, statistic, d_statistic, delta,
            wants_parameters ? tiles_.at(arrays_.parameter_sums) : nullptr);
  }

  // Finds the cut of a sparse normaliser that has one, in a walk of its own over the keys.
  void find_cut(QueryTile<E>& tile, E* cut) noexcept {
    std::fill_n(cut, tile.queries, -E(__builtin_inf()));
    if (places_.capacity == 0) return;
    const NormalizerKernels<E>& n = kernels_.normalizer;
    E* const scores = tiles_.at(arrays_.weights);
    uint64_t* const bits = tiles_.at(arrays_.bits);
    Candidates<E>& kept = tile.hooks.kept;
    kept.scores = tiles_.at(places_.scores);
    kept.keys = tiles_.at(places_.keys);
    kept.counts = tiles_.at(places_.counts);
    kept.enough = kept.counts + tile.queries;
    kept.capacity = places_.capacity;
    kept.stride = places_.scores.columns();
    kept.open = low_bits(tile.positions.count);
    std::fill_n(kept.counts, tile.queries, 0);
    E bounds[kMaxTileQueries];
    for_each_block(tile, bits, [&](TileKeys& tile_keys) {
      const Positions keys = tile_keys.positions;
      std::copy_n(cut, tile.queries, bounds);
      tiles_.close_rows(tile, kept.open, bounds);
      tiles_.compute_scores(tile, keys_.block_of(keys), tile_keys, scores, nullptr,
                            ScoreTiles<E>::Keep::nothing,
                            tile.prefilter.rounded ? bounds : nullptr);
      if (tile_keys.partial)
        kernels_.table.exclude(scores, bits, keys.count, tile.queries, tiles_.row(kBlockMax));
      n.find_cut(call_.forward.normalizer_object, tile.hooks, cut);
    });
    n.settle_cut(call_.forward.normalizer_object, tile.hooks, cut);
  }

  // Calls visit(tile_keys) for the blocks that the tile attends to.
  template <class Visit>
  void for_each_block(const QueryTile<E>& tile, uint64_t* bits, const Visit& visit) noexcept {
    const int64_t length = plan_.tiling.block_keys;
    for (int64_t begin = tile.range.begin / length * length; begin < tile.range.end;
         begin += plan_.pass_keys) {
      if (!keys_.load(begin, std::min(begin + plan_.pass_keys, tiles_.sequence().k_len),
                      tile.positions, false))
        continue;
      keys_.for_each_block(tile.positions, tile.range, [&](Positions keys) {
        if (tiles_.stopped()) return;
        if (TileKeys attended = tiles_.mask_keys(tile, keys, bits); !attended.none())
          visit(attended);
      });
    }
  }

  const BackwardCall<E>& call_;
  const Problem& p_;
  const BackwardPlan& plan_;
  const GradientTilePlaces<E>& arrays_;  // of the first tile; they are at work one after the other
  const RowDeltaPlaces<E>& places_;
  const Kernels<E>& kernels_;
  const GradientKernels<E>& gradients_;
  ScoreTiles<E>& tiles_;
  GradientKeys<E>& keys_;
  const WeightGradients<E>& weight_gradients_;
  const GradientRows<E>& rows_;
  SparsePairs<E>& sparse_;
  E kept_factor_;  // of dropout
};

}  // namespace rapt
