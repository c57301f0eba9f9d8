#pragma once
// The arithmetic of the backward pass on one worker: a unit of queries against a walk over keys.
// Formulas: rapt/backward.h; order of sums: backward_plan.h.
#include <new>

#include "attention/row_deltas.h"

namespace rapt {

// Of which operands a walk makes gradients: d_query (and what is summed per query) or d_key,
// d_value (and what is summed per key), or both at once.
struct Sides {
  bool queries, keys;
};

// Queries with all that the walk needs of them.
template <class E>
struct QueryUnit {
  Positions positions;
  int64_t tile_count = 0;
  KeyRange range = {0, 0};         // no key outside is visible
  const std::byte* d_output_t;     // tiles [value_dim][queries] of the route's elements
  E* d_query_t;                    // tiles [head_dim][queries]; null: not wanted
  const E *statistic, *delta;      // [queries]
  Rows query_rows, d_output_rows;  // [queries, dims], as they are summed; null: not wanted
  Finite query_finite = Finite::unknown, d_output_finite = Finite::unknown;
};

template <class E>
class GradientTiles {
 public:
  GradientTiles(const BackwardCall<E>& call, const CancelToken* cancel, int worker)
      : call_(call),
        p_(call.problem()),
        plan_(call.plan),
        wanted_(call.wanted),
        kernels_(call.scores.kernels),
        gradients_(kernels_.table.gradients),
        tiles_(call.scores, cancel, worker),
        keys_(call, tiles_),
        given_(p_, call.inputs),
        rows_(call, tiles_),
        block_tile_(call.plan.tiling.block_keys * widest_tile()),
        sparse_(call, tiles_),
        deltas_(call, tiles_, keys_, given_, rows_, sparse_) {}

  void begin_head(int64_t head, int64_t sequence) noexcept {
    tiles_.begin_head(head, sequence);
    given_.begin_head(head);
  }
  const Sequence& sequence() const noexcept { return tiles_.sequence(); }
  bool stopped() const noexcept { return tiles_.stopped(); }

  template <class T>
  T* scratch(size_t offset) const noexcept {
    return tiles_.template scratch<T>(offset);
  }
  std::byte* query_row(const Operand& o, int64_t position) const noexcept {
    return tiles_.query_row(o, position);
  }
  std::byte* key_row(const Operand& o, int64_t position) const noexcept {
    return tiles_.key_row(o, position);
  }

  // Calls visit(tile, offset) for the tiles of a unit.
  template <class Visit>
  void for_each_tile(Positions unit, const Visit& visit) noexcept {
    const Tiling::Cut cut = plan_.tiling.cut(unit.count);
    auto* const tile = scratch<QueryTile<E>>(call_.layout.tiles);
    for (int64_t i = 0, offset = 0; i < cut.tiles; ++i) {
      new (&tile[i]) QueryTile<E>;
      const int vectors = cut.vectors_of(i);
      const int64_t rows = std::min<int64_t>(vectors * plan_.tiling.lanes, unit.count - offset);
      tiles_.place_tile(tile[i], unit.part(offset, offset + rows), vectors, offset);
      visit(tile[i], offset);
      offset += tile[i].queries;
    }
  }

  // Bytes per query of a tile of queries, or d_output, as they are multiplied.
  int64_t query_bytes() const noexcept { return rows_.bytes_of_packed(p_.head_dim); }
  int64_t d_output_bytes() const noexcept { return rows_.bytes_of_packed(p_.value_dim); }
  // Bytes of a changed query.
  int64_t changed_bytes() const noexcept { return p_.head_dim * size_of(p_.dtype); }

  // Makes what a unit needs from the inputs: query_t, where rows change the `changed` ones,
  // d_output_t, statistic and, if `with_delta`, delta; then also what rows give to the gradients of
  // the normaliser's numbers, added to normalizer_sums [normalizer_head_numbers].
  void pack_unit(Positions unit, std::byte* query_t, std::byte* changed, std::byte* d_output_t,
                 E* statistic, E* delta, bool with_delta, double* normalizer_sums) noexcept {
    for_each_tile(unit, [&](QueryTile<E>& tile, int64_t offset) {
      tile.query_t = query_t + offset * query_bytes();
      tiles_.pack_queries(tile, changed + offset * changed_bytes());
      std::byte* const tile_t = d_output_t + offset * d_output_bytes();
      pack_rows_t(rows_.route_of(call_.inputs.d_output), tiles_, call_.inputs.d_output, tile,
                  p_.value_dim, tile_t);
      read_column(tiles_, call_.inputs.statistic, tile, -E(__builtin_inf()), statistic + offset);
      if (!with_delta) return;
      deltas_.make(tile, tile_t, statistic + offset, delta + offset);
      if (wanted_.normalizer)
        deltas_.add_normalizer(tile, statistic + offset, delta + offset, normalizer_sums);
    });
  }

  // A unit whose arrays are made; the pointers are those of its first query.
  QueryUnit<E> begin_unit(Positions positions, std::byte* query_t, std::byte* changed,
                          const std::byte* d_output_t, E* d_query_t, const E* statistic,
                          const E* delta, Sides sides) noexcept {
    QueryUnit<E> unit;
    unit.positions = positions;
    unit.range = {sequence().k_len, 0};
    for_each_tile(positions, [&](QueryTile<E>& tile, int64_t offset) {
      tile.query_t = query_t + offset * query_bytes();
      ++unit.tile_count;
      if (tile.range.begin < tile.range.end)
        unit.range = {std::min(unit.range.begin, tile.range.begin),
                      std::max(unit.range.end, tile.range.end)};
    });
    unit.d_output_t = d_output_t;
    unit.d_query_t = sides.queries ? d_query_t : nullptr;
    unit.statistic = statistic, unit.delta = delta;
    if (unit.range.begin >= unit.range.end) return unit;
    if (wanted_.key && sides.keys)
      unit.query_rows = rows_.summed_rows(rows_.route_of(p_.query), query_rows(positions, changed),
                                          positions.count, p_.head_dim, call_.layout.query_rows);
    if ((wanted_.value && sides.keys) || sparse_.possible())
      unit.d_output_rows = rows_.d_output_rows(positions);
    return unit;
  }

  // Keys [begin, end), at most pass_keys of them, for a walk to these sides.
  void load_keys(int64_t begin, int64_t end, Sides sides) noexcept {
    keys_.load(begin, end, sides.queries && wanted_.query_sums());
  }

  // Where the sums of the keys at work are kept.
  struct KeySums {
    E *d_key = nullptr, *d_value = nullptr;  // of key `begin`
    int64_t d_key_stride = 0, d_value_stride = 0;
    int64_t begin = 0;
    double *bias_sum = nullptr, *score_sums = nullptr;  // of the cell
  };

  // Adds what the unit and the loaded keys have to do with each other.
  void walk(QueryUnit<E>& unit, const KeySums& sums, Sides sides) noexcept {
    keys_.for_each_block(unit.range, [&](Positions keys) { walk_block(unit, keys, sums, sides); });
  }

  // d_query of a unit, whose sum is complete and is lost; returns the sum of d_query o query, not
  // yet scaled.
  double store_queries(Positions unit, E* d_query_t, std::byte* changed, bool with_dots) noexcept {
    double dots = 0;
    for_each_tile(unit, [&](QueryTile<E>& tile, int64_t offset) {
      E* const sums = d_query_t + offset * p_.head_dim;
      if (with_dots) dots += dots_with_query(tile, changed + offset * changed_bytes(), sums);
      if (call_.targets.query.data) {
        const Operand& out = call_.targets.query;
        if (p_.rows.any())
          tiles_.changer().change_back(sums, tiles_.given_queries(tile.positions),
                                       p_.rows.query_turns(),
                                       tiles_.place_of_queries(tile.positions), tile.queries);
        std::fill_n(tiles_.row(2), tile.queries, static_cast<E>(p_.scale));
        kernels_.table.store_rows[static_cast<int>(out.dtype)](
            sums, p_.head_dim, tile.queries, tiles_.row(2), ~uint64_t{0}, tile.positions.count,
            query_row(out, tile.positions.start), out.row_stride, out.dim_stride);
      }
    });
    return dots;
  }

  // d_key of keys whose sums are complete, rows `stride` apart; they may be the result's.
  void store_keys(Positions keys, E* sums, int64_t stride) noexcept {
    const Operand& out = call_.targets.key;
    if (!p_.rows.changes_key) {
      kernels_.table.gradients.store_key_rows[static_cast<int>(out.dtype)](
          sums, stride, keys.count, p_.head_dim, static_cast<E>(p_.scale), key_row(out, keys.start),
          out.row_stride, out.dim_stride);
      return;
    }
    const RowChanger<E> changer = tiles_.changer();
    E* const factor = tiles_.row(2);
    std::fill_n(factor, changer.width(), static_cast<E>(p_.scale));
    for (int64_t at = 0; at < keys.count; at += changer.width()) {
      const Positions some = keys.part(at, std::min(at + changer.width(), keys.count));
      changer.change_back(
          {reinterpret_cast<std::byte*>(sums + at * stride), p_.result_dtype, stride, 1},
          tiles_.given_keys(some), p_.rows.key_turns(), tiles_.place_of_keys(some), factor,
          {key_row(out, some.start), out.dtype, out.row_stride, out.dim_stride});
    }
  }

 private:
  int64_t widest_tile() const noexcept {
    return std::min<int64_t>(std::min(plan_.tiling.unit_queries, plan_.longest_query),
                             plan_.tiling.max_vectors * plan_.tiling.lanes);
  }

  // Queries as they are multiplied: where the caller has them, or changed.
  RowsAt query_rows(Positions at, std::byte* changed) const noexcept {
    if (!p_.rows.any()) return tiles_.given_queries(at);
    return {changed, p_.dtype, p_.head_dim, 1};
  }

  // All gradients that come of a tile's pairs.
  void add_pairs(const QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys,
                 const KeySums& sums, Sides sides) noexcept {
    const auto dense = SparsePairs<E>::dense;
    SparseGradients<E> g = {};
    g.head_dim = p_.head_dim, g.value_dim = p_.value_dim, g.queries = tile.queries;
    g.d_output = dense(unit.d_output_rows, tile.offset);
    g.key = dense(keys_.summed_keys(keys.start), 0);
    g.value = dense(keys_.values(keys.start), 0);
    g.delta = unit.delta + tile.offset;
    if (unit.d_query_t) g.d_query_t = unit.d_query_t + tile.offset * p_.head_dim;
    if (wanted_.key && sides.keys) {
      g.query = dense(unit.query_rows, tile.offset);
      g.d_key = sums.d_key + (keys.start - sums.begin) * sums.d_key_stride;
      g.d_key_stride = sums.d_key_stride;
    }
    if (wanted_.value && sides.keys) {
      g.d_value = sums.d_value + (keys.start - sums.begin) * sums.d_value_stride;
      g.d_value_stride = sums.d_value_stride;
    }
    sparse_.add_gradients(g);
  }

  bool rows_finite(Finite& known, const Rows& rows, int64_t count, int64_t dims) const noexcept {
    if (known == Finite::unknown)
      known =
          kernels_.route.all_finite(rows.data, rows.stride, count, dims) ? Finite::yes : Finite::no;
    return known == Finite::yes;
  }

  void walk_block(QueryUnit<E>& unit, Positions keys, const KeySums& sums, Sides sides) noexcept {
    const KeyBlock block = keys_.block_of(keys);
    GradientSpan<E> weights[kMostTiles], d_scores[kMostTiles];
    int64_t spans = 0;
    bool partial = false;
    auto* const tile = scratch<QueryTile<E>>(call_.layout.tiles);
    for (int64_t i = 0; i < unit.tile_count; ++i) {
      QueryTile<E>& one = tile[i];
      E* const w = scratch<E>(call_.layout.weights) + i * block_tile_;
      E* const d = scratch<E>(call_.layout.d_weights) + i * block_tile_;
      auto* const bits = scratch<uint64_t>(call_.layout.bits) + i * plan_.tiling.block_keys;
      if (!make_tile(unit, one, block, keys, w, d, bits, sums, sides)) continue;
      const bool some = tiles_.partial();
      partial |= some;
      const uint64_t* const allowed = some ? bits : nullptr;
      if (unit.d_query_t) add_to_queries(unit, one, keys, d, allowed);
      if (!sides.keys) continue;
      const auto span_of = [&](const E* tile_weights, size_t rounded, const Rows& rows) {
        return GradientSpan<E>{as_multiplied(one, keys, tile_weights, rounded, i),
                               one.queries,
                               rows.data + one.offset * rows.stride * kernels_.route.element_size,
                               rows.stride,
                               one.positions.count,
                               allowed};
      };
      if (wanted_.value)
        weights[spans] = span_of(w, call_.layout.rounded_weights, unit.d_output_rows);
      if (wanted_.key) d_scores[spans] = span_of(d, call_.layout.rounded_d_scores, unit.query_rows);
      ++spans;
    }
    if (spans == 0) return;
    // 0 * NaN is NaN: see Forward::add_values().
    const auto& [add, add_of_bits] = kernels_.route.key_gradients;
    const int64_t rows = unit.positions.count;
    if (wanted_.value) {
      const bool slow =
          partial && !rows_finite(unit.d_output_finite, unit.d_output_rows, rows, p_.value_dim);
      (slow ? add_of_bits : add)(weights, spans, keys.count, p_.value_dim,
                                 sums.d_value + (keys.start - sums.begin) * sums.d_value_stride,
                                 sums.d_value_stride);
    }
    if (wanted_.key) {
      const bool slow =
          partial && !rows_finite(unit.query_finite, unit.query_rows, rows, p_.head_dim);
      (slow ? add_of_bits : add)(d_scores, spans, keys.count, p_.head_dim,
                                 sums.d_key + (keys.start - sums.begin) * sums.d_key_stride,
                                 sums.d_key_stride);
    }
  }

  // Weights or d_scores of the unit's tile `nth` as the sums over queries take them.
  const void* as_multiplied(const QueryTile<E>& tile, Positions keys, const E* tile_weights,
                            size_t place, int64_t nth) noexcept {
    if (!kernels_.route.rounds()) return tile_weights;
    auto* const rounded =
        scratch<std::byte>(place) + nth * block_tile_ * kernels_.route.element_size;
    kernels_.route.round_for_keys(tile_weights, keys.count, tile.queries, rounded);
    return rounded;
  }

  // Weights, those that dropout keeps, and gradients of the scores of a tile; false: the tile sees
  // none of the keys, or all that comes of it has been added, pair by pair.
  bool make_tile(const QueryUnit<E>& unit, QueryTile<E>& tile, const KeyBlock& block,
                 Positions keys, E* w, E* d, uint64_t* bits, const KeySums& sums,
                 Sides sides) noexcept {
    if (tile.range.begin >= keys.start + keys.count || tile.range.end <= keys.start) return false;
    if (tiles_.see(tile, keys, bits) == Cover::none) return false;
    const auto keep = kernels_.table.dropout.keep;
    E* const before = call_.scores.scores.empty() ? nullptr : scratch<E>(call_.layout.before);
    using Keep = typename ScoreTiles<E>::Keep;
    tiles_.compute_scores(tile, block, keys, w, before,
                          before && wanted_.d_scores() ? Keep::for_backward : Keep::nothing);
    if (sparse_.find(tile, unit.statistic + tile.offset, bits)) {
      add_pairs(unit, tile, keys, sums, sides);
      return false;
    }
    if (wanted_.d_scores())
      deltas_.make_d_weights(tile, unit.d_output_t + tile.offset * d_output_bytes(), keys, d);
    else
      std::fill_n(d, keys.count * tile.queries, E(0));
    kernels_.normalizer.backward(call_.scores.normalizer_object, tile.hooks, d,
                                 unit.statistic + tile.offset, unit.delta + tile.offset);
    // Lanes beyond the last query have queries of 0, but 0 times an infinite key is NaN, and sums
    // over queries may take all lanes.
    const bool lanes_left = tile.positions.count < tile.queries;
    if (lanes_left && !tiles_.partial())
      std::fill_n(bits, keys.count, low_bits(tile.positions.count));
    if (lanes_left || tiles_.partial()) {
      keep(w, bits, keys.count, tile.queries, E(1));
      keep(d, bits, keys.count, tile.queries, E(1));
    }
    // The factor of what is kept waits for the end of the sum.
    if (p_.drop_below > 0) keep(w, tiles_.kept(tile), keys.count, tile.queries, E(1));
    if (wanted_.bias) add_bias(tile, keys, d, sums, sides);
    if (before && wanted_.d_scores()) undo_scores(tile, keys, before, d, sums, sides);
    return true;
  }

  void add_bias(const QueryTile<E>& tile, Positions keys, const E* d, const KeySums& sums,
                Sides sides) noexcept {
    const Operand& out = call_.targets.bias;
    if (!out.data) return;
    if (out.row_stride == 0 && out.dim_stride == 0) {
      if (sides.keys) *sums.bias_sum += gradients_.sum_of_tile(d, keys.count * tile.queries);
      return;
    }
    // In two passes by whom alone adds to the number, in the same order.
    if (!(out.dim_stride == 0 ? sides.queries : sides.keys)) return;
    auto* const bias =
        reinterpret_cast<E*>(query_row(out, tile.positions.start)) + keys.start * out.dim_stride;
    gradients_.add_bias_gradient(d, keys.count, tile.queries, tile.positions.count, bias,
                                 out.row_stride, out.dim_stride);
  }

  // The scores of the call, last first.
  void undo_scores(QueryTile<E>& tile, Positions keys, const E* before, E* d, const KeySums& sums,
                   Sides sides) noexcept {
    const auto& scores = call_.scores.scores;
    const int64_t count = keys.count * tile.queries;
    int64_t number = wanted_.head_numbers;
    Tile<E> gradients = tile.hooks;
    gradients.scores = d;
    E* const lanes = scratch<E>(call_.layout.parameter_sums);
    for (size_t s = scores.size(); s-- > 0;) {
      const ScoreKernels<E>& kernel = kernels_.table.scores[scores[s].index];
      const int64_t count_of_score = wanted_.numbers_of[s];
      std::fill_n(lanes, count_of_score * tile.queries, E(0));
      const E* const found = before + static_cast<int64_t>(s) * count;
      kernel.backward(scores[s].object, found, found + count, gradients, lanes);
      if (!wanted_.scores || !sides.keys) continue;
      number -= count_of_score;
      for (int64_t r = 0; r < count_of_score; ++r)
        sums.score_sums[number + r] +=
            gradients_.sum_of_tile(lanes + r * tile.queries, tile.queries);
    }
  }

  void add_to_queries(const QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys,
                      const E* d, const uint64_t* bits) noexcept {
    const RouteKernels<E>& route = kernels_.route;
    E* const sums = unit.d_query_t + tile.offset * p_.head_dim;
    const void* d_scores = d;
    if (kernels_.route.rounds()) {
      auto* const rounded = scratch<std::byte>(call_.layout.d_scores_of_query);
      route.round_weights(d, keys.count, tile.queries, rounded);
      d_scores = rounded;
    }
    const Rows rows = keys_.summed_keys(keys.start);
    if (bits && !keys_.finite(keys))
      route.output_of_bits(d_scores, bits, rows.data, rows.stride, keys.count, p_.head_dim, nullptr,
                           tile.queries, sums);
    else
      route.products[tile.vectors - 1].output(d_scores, rows.data, rows.stride, keys.count,
                                              p_.head_dim, nullptr, sums);
  }

  // The sum over the tile's queries of d_query . query. A query without keys has a d_query of 0,
  // whatever its numbers.
  double dots_with_query(const QueryTile<E>& tile, std::byte* changed,
                         const E* d_query_t) noexcept {
    E* const query_t = scratch<E>(call_.layout.rows_t);
    E* const dots = tiles_.row(2);
    const RowsAt rows = query_rows(tile.positions, changed);
    rows_.widening(p_.query).pack_queries(rows.data, rows.row_stride, rows.dim_stride,
                                          tile.positions.count, p_.head_dim, E(1), tile.queries,
                                          query_t);
    std::fill_n(dots, tile.queries, E(0));
    gradients_.add_dots(d_query_t, query_t, p_.head_dim, tile.queries, dots);
    double sum = 0;
    for (int64_t i = 0; i < tile.positions.count; ++i) {
      bool zero = dots[i] - dots[i] != 0;  // not finite
      for (int64_t d = 0; zero && d < p_.head_dim; ++d) zero = d_query_t[d * tile.queries + i] == 0;
      if (!zero) sum += static_cast<double>(dots[i]);
    }
    return sum;
  }

  // Tiles of a unit: of one vector of 4 lanes or more.
  static constexpr int kMostTiles = 16;

  const BackwardCall<E>& call_;
  const Problem& p_;
  const BackwardPlan& plan_;
  const WantedGradients& wanted_;
  const Kernels<E>& kernels_;
  const GradientKernels<E>& gradients_;
  ScoreTiles<E> tiles_;
  GradientKeys<E> keys_;
  GivenWeights<E> given_;
  GradientRows<E> rows_;
  int64_t block_tile_;
  SparsePairs<E> sparse_;
  RowDeltas<E> deltas_;
};

}  // namespace rapt
