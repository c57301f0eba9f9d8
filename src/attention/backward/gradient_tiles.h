#pragma once
// The arithmetic of the backward pass on one worker: a work unit of queries and a walk over keys.
// Formulas: rapt/backward.h; order of sums: backward_plan.h. The code is in the header because it
// is a template over E.
#include <new>

#include "attention/backward/distance_sums.h"
#include "attention/backward/gradient_products.h"
#include "attention/backward/pipelined_gradients.h"
#include "attention/backward/query_sums.h"
#include "attention/backward/row_deltas.h"
#include "attention/backward/score_gradients.h"

namespace rapt {

template <class E>
class GradientTiles {
 public:
  GradientTiles(const BackwardCall<E>& call, const CancelToken* cancel, int worker)
      : call_(call),
        p_(call.problem()),
        plan_(call.plan),
        wanted_(call.wanted),
        arrays_(call.layout.tiles),
        kernels_(call.forward.kernels),
        gradients_(kernels_.table.gradients),
        tiles_(call.forward, cancel, worker),
        keys_(call, tiles_),
        weight_gradients_(p_, call.inputs),
        rows_(call, tiles_),
        sums_(call, tiles_, rows_),
        products_(call, tiles_, keys_, rows_),
        pipelined_(call, tiles_, keys_, products_),
        sparse_(call, tiles_),
        deltas_(call, tiles_, keys_, weight_gradients_, rows_, sparse_),
        distances_(call, tiles_) {}

  void begin_head(int64_t head, int64_t sequence) noexcept {
    tiles_.begin_head(head, sequence);
    weight_gradients_.begin_head(head);
  }
  const ScoreTiles<E>& tiles() const noexcept { return tiles_; }
  // The sum of the elementwise product of the window and query_rows over the table rows [begin,
  // end). A table row without a pair adds nothing.
  double dots_with_query_rows(const DistanceWindow<E>& window, int64_t begin,
                              int64_t end) noexcept {
    double sum = 0;
    for (int64_t row = begin; row < end; ++row) {
      const E* const of_row = tiles_.relative().query_rows(row, 1).data;
      for (int64_t d = 0; d < window.dims; ++d)
        if (window.row(row)[d] != 0)
          sum += static_cast<double>(window.row(row)[d]) * static_cast<double>(of_row[d]);
    }
    return sum;
  }

  // Calls visit(tile, offset) for the tiles of a work unit.
  template <class Visit>
  void for_each_tile(Positions unit, const Visit& visit) noexcept {
    QueryTile<E>* const tile = tiles_.at(arrays_.tiles);
    plan_.tiling.for_each_tile(
        unit, [&](int64_t n, Positions positions, int vectors, int64_t offset) {
          tiles_.place_tile(*new (&tile[n]) QueryTile<E>, positions, vectors, offset);
          visit(tile[n], offset);
        });
  }

  // Packs the arrays of a work unit. With `with_delta` it also computes delta, and adds what its
  // rows contribute to the gradients of the normaliser's parameters to normalizer_sums
  // [normalizer_head_parameter_count].
  void pack_unit(Positions unit, const UnitArrays<E>& a, bool with_delta,
                 double* normalizer_sums) noexcept {
    for_each_tile(unit, [&](QueryTile<E>& tile, int64_t offset) {
      tile.query_t = a.query_t(offset);
      tile.position_t = a.position_t(offset);
      tiles_.pack_queries(tile, a.transformed_query(offset), a.position_query(offset));
      if (tiles_.prefiltered()) tiles_.use_prefilter(tile, a.rounded(offset));
      pack_rows_t(rows_.route_of(call_.inputs.d_output), tiles_, call_.inputs.d_output, tile,
                  p_.value_dim, a.d_output_t(offset));
      rows_.find_outside_rows(tile, a.transformed_query(offset));
      E *const statistic = a.statistic(offset), *const delta = a.delta(offset);
      read_column(tiles_, call_.inputs.statistic, tile, -E(__builtin_inf()), statistic);
      if (!with_delta) return;
      deltas_.compute(tile, a.d_output_t(offset), statistic, delta, a.kept(offset));
      if (wanted_.normalizer_parameters)
        deltas_.add_normalizer(tile, statistic, delta, normalizer_sums);
    });
  }

  // Starts a work unit whose arrays are packed.
  QueryUnit<E> begin_unit(Positions positions, const UnitArrays<E>& a, E* d_query_t,
                          Sides sides) noexcept {
    QueryUnit<E> unit;
    unit.positions = positions, unit.arrays = a;
    unit.range = {tiles_.sequence().k_len, 0};
    for_each_tile(positions, [&](QueryTile<E>& tile, int64_t offset) {
      tile.query_t = a.query_t(offset);
      tile.position_t = a.position_t(offset);
      if (tiles_.prefiltered()) tile.prefilter.rounded = a.rounded(offset);
      rows_.find_outside_rows(tile, a.transformed_query(offset));
      ++unit.tile_count;
      if (tile.range.begin < tile.range.end)
        unit.range = {std::min(unit.range.begin, tile.range.begin),
                      std::max(unit.range.end, tile.range.end)};
    });
    unit.d_query_t = sides.queries ? d_query_t : nullptr;
    if (unit.range.begin >= unit.range.end) return unit;
    const GradientRowPlaces& rows = call_.layout.rows;
    const auto summed = [&](std::byte* transformed, const Place<std::byte>& place) {
      return rows_.summed_rows(rows_.route_of(p_.query), sums_.query_rows(positions, transformed),
                               positions.count, p_.head_dim, place);
    };
    if ((wanted_.key || wanted_.key_rows) && sides.keys)
      unit.query_rows = summed(a.transformed_query(0), rows.query);
    if (wanted_.key_rows && sides.keys)
      unit.position_rows =
          p_.rows.adds_biases ? summed(a.position_query(0), rows.position) : unit.query_rows;
    if (((wanted_.value || wanted_.value_rows) && sides.keys) || sparse_.possible())
      unit.d_output_rows = rows_.d_output_rows(positions);
    return unit;
  }

  // Loads the keys of [begin, end), at most pass_keys, that some of the queries attend to, for a
  // walk that adds to these sides; false: there is none.
  bool load_keys(int64_t begin, int64_t end, Positions queries, Sides sides) noexcept {
    return keys_.load(begin, end, queries, sides.queries && wanted_.query_sums());
  }

  // Whether a walk of a work unit over the loaded keys changes any sum. Where biases are added to
  // queries, a walk without keys adds zeros, which turn -0 into +0.
  bool walk_adds(Positions unit) const noexcept {
    return p_.rows.adds_biases || keys_.attended_by(unit);
  }

  using KeySums = rapt::KeySums<E>;

  // Adds the pairs of the work unit and the loaded keys to all wanted gradients.
  void walk(QueryUnit<E>& unit, const KeySums& sums, Sides sides) noexcept {
    E* const d_query_t = unit.d_query_t;
    const int64_t count = plan_.tiling.padded(unit.positions.count) * p_.head_dim;
    const bool separate_sums = d_query_t && p_.rows.adds_biases;
    if (separate_sums) {
      unit.content_sums = tiles_.at(call_.layout.query_sums.content);
      unit.position_sums = tiles_.at(call_.layout.query_sums.position);
      std::fill_n(unit.content_sums, count, E(0));
      std::fill_n(unit.position_sums, count, E(0));
    } else {
      unit.content_sums = unit.position_sums = d_query_t;
    }
    const auto walk_alone = [&](Positions keys) { walk_block(unit, keys, sums, sides); };
    if (pipelined_.handles(unit, sides))
      pipelined_.walk(unit, sums, sides, walk_alone);
    else
      keys_.for_each_block(unit.positions, unit.range, walk_alone);
    if (!separate_sums) return;
    if (unit.query_bias_sums) sums_.add_query_bias_gradients(unit);
    if (unit.query_dots) sums_.add_dots(unit);
    for (int64_t x = 0; x < count; ++x)
      d_query_t[x] += unit.content_sums[x] + unit.position_sums[x];
  }

  // Stores d_query of a work unit from its complete sums, which are overwritten. With `with_dots`
  // it returns the sum of d_query o query, not yet scaled; `dots` [queries] has it per query, if
  // walks have computed it. `pairs` [queries][head_dim]: sums that were added pair by pair; null:
  // none.
  double store_queries(Positions unit, const UnitArrays<E>& arrays, E* d_query_t, const E* pairs,
                       bool with_dots, const E* dots) noexcept {
    double sum = 0;
    for_each_tile(unit, [&](QueryTile<E>& tile, int64_t offset) {
      E* const sums = d_query_t + offset * p_.head_dim;
      for (int64_t i = 0; pairs && i < tile.positions.count; ++i)
        for (int64_t d = 0; d < p_.head_dim; ++d)
          sums[d * tile.queries + i] += pairs[(offset + i) * p_.head_dim + d];
      if (with_dots) {
        E* const found = tiles_.row(kDots);
        if (dots) {
          std::copy_n(dots + offset, tile.queries, found);
        } else {
          std::fill_n(found, tile.queries, E(0));
          sums_.add_dots(tile, sums_.query_rows(tile.positions, arrays.transformed_query(offset)),
                         sums, found);
        }
        for (int64_t i = 0; i < tile.positions.count; ++i) sum += static_cast<double>(found[i]);
      }
      if (call_.targets.query.data) {
        const Operand& out = call_.targets.query;
        if (p_.rows.any())
          tiles_.row_transformer().transform_back(
              sums, tiles_.original_queries(tile.positions), p_.rows.query_turns(),
              tiles_.place_of_queries(tile.positions), tile.queries);
        std::fill_n(tiles_.row(kMultiplier), tile.queries, static_cast<E>(p_.scale));
        store_rows<E>(tiles_, kernels_.table, sums, p_.head_dim, tile, tiles_.row(kMultiplier),
                      ~uint64_t{0}, out);
      }
    });
    return sum;
  }

  // Stores d_key from complete sums, rows `stride` apart; they may lie in the result.
  void store_keys(Positions keys, E* sums, int64_t stride) noexcept {
    const Operand& out = call_.targets.key;
    if (!p_.rows.transforms_key) {
      kernels_.table.gradients.store_key_rows[static_cast<int>(out.dtype)](
          sums, stride, keys.count, p_.head_dim, static_cast<E>(p_.scale),
          tiles_.key_row(out, keys.start), out.row_stride, out.dim_stride);
      return;
    }
    const RowTransformer<E> transformer = tiles_.row_transformer();
    E* const factor = tiles_.row(kMultiplier);
    std::fill_n(factor, transformer.width(), static_cast<E>(p_.scale));
    for (int64_t at = 0; at < keys.count; at += transformer.width()) {
      const Positions some = keys.part(at, std::min(at + transformer.width(), keys.count));
      transformer.transform_back(
          {reinterpret_cast<std::byte*>(sums + at * stride), p_.result_dtype, stride, 1},
          tiles_.original_keys(some), p_.rows.key_turns(), tiles_.place_of_keys(some), factor,
          {tiles_.key_row(out, some.start), out.dtype, out.row_stride, out.dim_stride});
    }
  }

 private:
  // Adds the sparse pairs of a tile to all wanted gradients; `count`: of SparsePairs.
  void add_pairs(int64_t count, const QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys,
                 const KeySums& sums, Sides sides) noexcept {
    const auto dense = SparsePairs<E>::dense;
    SparseGradients<E> g = {};
    g.head_dim = p_.head_dim, g.value_dim = p_.value_dim, g.queries = tile.queries;
    g.d_output = dense(unit.d_output_rows, tile.offset);
    g.key = dense(keys_.summed_keys(keys.start), 0);
    g.value = dense(keys_.values(keys.start), 0);
    g.delta = unit.arrays.delta(tile.offset);
    if (unit.d_query_t) g.d_query = unit.d_query_pairs + tile.offset * p_.head_dim;
    if (wanted_.key && sides.keys) {
      g.query = dense(unit.query_rows, tile.offset);
      g.d_key = sums.d_key + (keys.start - sums.begin) * sums.d_key_stride;
      g.d_key_stride = sums.d_key_stride;
    }
    if (wanted_.value && sides.keys) {
      g.d_value = sums.d_value + (keys.start - sums.begin) * sums.d_value_stride;
      g.d_value_stride = sums.d_value_stride;
    }
    sparse_.add_gradients(count, g);
  }

  void walk_block(QueryUnit<E>& unit, Positions keys, const KeySums& sums, Sides sides) noexcept {
    const KeyBlock block = keys_.block_of(keys);
    GradientSpan<E> weights[kMostUnitTiles], d_scores[kMostUnitTiles];
    int64_t spans = 0;
    bool partial = false;
    for (int64_t i = 0; i < unit.tile_count; ++i) {
      QueryTile<E>& one = *tiles_.at(arrays_.tiles, i);
      E *const w = tiles_.at(arrays_.weights, i), *const d = tiles_.at(arrays_.d_weights, i);
      const TileKeys made =
          make_tile(unit, one, block, keys, w, d, tiles_.at(arrays_.bits, i), sums, sides);
      if (made.none()) continue;
      partial |= made.partial;
      const uint64_t* const allowed = made.allowed();
      if (sides.keys) products_.add_exact_to_keys(one, keys, w, d, allowed, sums);
      if (unit.d_query_t) products_.add_to_queries(unit, one, keys, d, allowed);
      if (p_.relative.tables()) add_distances(unit, one, keys, w, d, allowed, sums, sides);
      if (!sides.keys) continue;
      const auto span_of = [&](const E* of, const Place<std::byte>& rounded, const Rows& rows) {
        return products_.span_of(one, keys, of, rounded.in_or_null(tiles_.scratch(), i), rows,
                                 allowed);
      };
      if (wanted_.value) weights[spans] = span_of(w, arrays_.rounded_weights, unit.d_output_rows);
      if (wanted_.key) d_scores[spans] = span_of(d, arrays_.rounded_d_scores, unit.query_rows);
      ++spans;
    }
    if (spans == 0) return;
    products_.add_to_keys(unit, weights, d_scores, spans, partial, keys, sums);
  }

  // Adds the pairs of a tile to d_query through key_rows, and to the gradients of distance tables.
  void add_distances(QueryUnit<E>& unit, const QueryTile<E>& tile, Positions keys, const E* w,
                     const E* d, const uint64_t* allowed, const KeySums& sums,
                     Sides sides) noexcept {
    DistanceTile<E> of{tile.positions, keys, tile.vectors, allowed};
    if (p_.relative.key && (unit.d_query_t || (wanted_.key_rows && sides.keys))) {
      const DistanceSpan span = distances_.sum_by_distance(of, d);
      if (unit.d_query_t)
        tiles_.relative().add_key_rows(span, tile.vectors, tile.positions, keys, allowed,
                                       unit.position_sums + tile.offset * p_.head_dim);
      if (wanted_.key_rows && sides.keys)
        distances_.add_rows(of, span, sums.windows.key, unit.position_rows, tile.offset);
    }
    if (p_.relative.query && sides.keys && (wanted_.key || wanted_.query_rows_sums))
      distances_.add_query_rows(
          of, d, keys_.summed_keys(keys.start), sums.windows.query,
          wanted_.key ? sums.d_key + (keys.start - sums.begin) * sums.d_key_stride : nullptr,
          sums.d_key_stride, p_.head_dim);
    if (wanted_.value_rows && sides.keys) {
      const DistanceSpan span = distances_.sum_by_distance(of, w);
      distances_.add_rows(of, span, sums.windows.value, unit.d_output_rows, tile.offset);
    }
  }

  // Computes the weights of a tile, 0 where dropout drops the pair, and the gradients of its
  // scores. Returns no keys if the tile attends to none of these, or if its pairs have been added
  // one by one.
  TileKeys make_tile(const QueryUnit<E>& unit, QueryTile<E>& tile, const KeyBlock& block,
                     Positions keys, E* w, E* d, uint64_t* bits, const KeySums& sums,
                     Sides sides) noexcept {
    if (tile.range.begin >= keys.start + keys.count || tile.range.end <= keys.start) return {};
    constexpr int64_t kTooMany = SparsePairs<E>::kTooMany;
    if (const int64_t pairs = sparse_.recall(unit.arrays.kept(tile.offset), tile, keys);
        pairs != kTooMany) {
      add_pairs(pairs, unit, tile, keys, sums, sides);
      return {};
    }
    TileKeys made = tiles_.mask_keys(tile, keys, bits);
    if (made.none()) return made;
    const auto keep = kernels_.table.dropout.keep;
    E* const before = arrays_.before.in_or_null(tiles_.scratch());
    const E* const statistic = unit.arrays.statistic(tile.offset);
    const E* const delta = unit.arrays.delta(tile.offset);
    using Keep = typename ScoreTiles<E>::Keep;
    E bounds[kMaxTileQueries];
    tiles_.compute_scores(tile, block, made, w, before,
                          before && wanted_.d_scores() ? Keep::for_backward : Keep::nothing,
                          tiles_.bounds_of(tile, statistic, delta, bounds));
    if (const int64_t pairs = sparse_.find(tile, made, statistic, delta); pairs != kTooMany) {
      add_pairs(pairs, unit, tile, keys, sums, sides);
      return {};
    }
    if (wanted_.d_scores())
      deltas_.make_d_weights(tile, unit.arrays.d_output_t(tile.offset), keys, d);
    else
      std::fill_n(d, keys.count * tile.queries, E(0));
    kernels_.normalizer.backward(call_.forward.normalizer_object, tile.hooks, d, statistic, delta);
    // Lanes beyond the last query hold queries of 0, but 0 times an infinite key is NaN, and sums
    // over queries may read all lanes.
    const bool lanes_left = tile.positions.count < tile.queries;
    if (lanes_left && !made.partial) std::fill_n(bits, keys.count, low_bits(tile.positions.count));
    if (lanes_left || made.partial) {
      keep(w, bits, keys.count, tile.queries, E(1));
      keep(d, bits, keys.count, tile.queries, E(1));
    }
    // The factor of kept weights is applied at the end of the sum.
    if (p_.drop_below > 0) keep(w, tiles_.kept(tile), keys.count, tile.queries, E(1));
    if (wanted_.bias && !p_.bias_first) add_bias(tile, keys, d, sums, sides);
    if (before && wanted_.d_scores()) undo_scores(tile, keys, before, d, sums, sides);
    if (wanted_.bias && p_.bias_first) add_bias(tile, keys, d, sums, sides);
    return made;
  }

  void add_bias(const QueryTile<E>& tile, Positions keys, const E* d, const KeySums& sums,
                Sides sides) noexcept {
    add_bias_gradient(tiles_, gradients_, tile, keys, d, sides, call_.targets.bias, sums.bias_sum);
  }

  // Applies the backward hooks of the score functions to d.
  void undo_scores(QueryTile<E>& tile, Positions keys, const E* before, E* d, const KeySums& sums,
                   Sides sides) noexcept {
    const int64_t count = keys.count * tile.queries;
    Tile<E> gradients = tile.hooks;
    gradients.scores = d;
    E* const lanes = tiles_.at(arrays_.parameter_sums);
    rapt::undo_scores(call_.forward, wanted_, tile.queries, lanes,
                      wanted_.score_parameters && sides.keys ? sums.score_sums : nullptr,
                      [&](const ScoreKernels<E>& kernel, const void* score, int64_t nth, int64_t) {
                        const E* const found = before + nth * count;
                        kernel.backward(score, found, found + count, gradients, lanes);
                      });
  }

  const BackwardCall<E>& call_;
  const Problem& p_;
  const BackwardPlan& plan_;
  const WantedGradients& wanted_;
  const GradientTilePlaces<E>& arrays_;
  const Kernels<E>& kernels_;
  const GradientKernels<E>& gradients_;
  ScoreTiles<E> tiles_;
  GradientKeys<E> keys_;
  WeightGradients<E> weight_gradients_;
  GradientRows<E> rows_;
  QuerySums<E> sums_;
  GradientProducts<E> products_;
  PipelinedGradients<E> pipelined_;
  SparsePairs<E> sparse_;
  RowDeltas<E> deltas_;
  DistanceSums<E> distances_;
};

}  // namespace rapt
