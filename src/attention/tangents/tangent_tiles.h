#pragma once
// The walks of tangents on one worker: a work unit of queries and blocks of keys, and the sums over
// them. Formulas: rapt/tangents.h. The code is in the header because it is a template over E.
#include "attention/tangents/tangent_pairs.h"

namespace rapt {

// Scratch of TangentTiles.
template <class E>
struct TangentTilePlaces {
  Place<E> rows_t;    // [largest head size][queries]: a tile of output or query
  Place<E> output_t;  // tiles [value_dim][queries]: sums of forward mode

  void reserve(GradientScratch<E>& scratch, bool second) {
    const Problem& p = scratch.problem;
    scratch.worker.place(rows_t, {std::max(p.head_dim, p.value_dim), scratch.tile});
    if (!second) scratch.worker.place(output_t, {scratch.unit, p.value_dim});
  }
};

template <class E>
class TangentTiles {
 public:
  TangentTiles(const TangentCall<E>& call, const CancelToken* cancel, int worker)
      : call_(call),
        p_(call.problem()),
        in_(call.inputs),
        places_(call.layout.tiles),
        kernels_(call.forward.kernels),
        gradients_(kernels_.table.gradients),
        tiles_(call.forward, cancel, worker),
        unit_(call, tiles_),
        keys_(call, tiles_),
        pairs_(call, tiles_, unit_, keys_) {}
  TangentTiles(const TangentTiles&) = delete;
  TangentTiles& operator=(const TangentTiles&) = delete;

  void begin_head(int64_t head, int64_t sequence) noexcept { tiles_.begin_head(head, sequence); }
  bool stopped() const noexcept { return tiles_.stopped(); }
  const Sequence& sequence() const noexcept { return tiles_.sequence(); }
  const ScoreTiles<E>& tiles() const noexcept { return tiles_; }
  int64_t unit_queries() const noexcept { return unit_.most_queries(); }
  KeyRange all_keys() const noexcept { return {0, sequence().k_len}; }

  // Forward mode: computes the tangents of output and statistic of a work unit.
  void compute_state_tangents(Positions positions) noexcept {
    unit_.begin(positions);
    unit_.pack_queries();
    std::fill_n(tiles_.at(places_.output_t), places_.output_t.count(), E(0));
    unit_.clear(Unit::kLseTangent);
    walk_keys([&](QueryTile<E>& tile, const TileKeys& keys, const Arrays& a) {
      pairs_.make_weights(tile, keys, a);
      pairs_.drop_weights(tile, keys.positions, a);
      E* const sums = tiles_.at(places_.output_t, tile.offset);
      add_rows(tile, keys, a.tangents, Keys::kValue, sums);
      if (in_.value.data) add_rows(tile, keys, a.scores, Keys::kValueTangent, sums);
    });
    unit_.for_each_tile([&](const QueryTile<E>& tile) {
      store_results(tile, tiles_.at(places_.output_t, tile.offset));
    });
  }

  // Second derivatives: computes the row values that the other walks of a work unit need, [unit
  // queries] each.
  void compute_row_values(Positions positions, E* lse_tangents, E* deltas,
                          E* delta_tangents) noexcept {
    unit_.begin(positions);
    unit_.pack_queries();
    unit_.pack_d_output();
    for (const auto n : {Unit::kLseTangent, Unit::kDelta, Unit::kDeltaTangent}) unit_.clear(n);
    walk_keys([&](QueryTile<E>& tile, const TileKeys& keys, const Arrays& a) {
      const int64_t count = keys.positions.count;
      pairs_.multiply_values(tile, keys.positions, a);
      pairs_.make_weights(tile, keys, a);
      pairs_.keep_allowed(tile, keys, {a.d_weights, a.d_weights_tangents});
      E* const sums = unit_.row_value(Unit::kDeltaTangent) + tile.offset;
      gradients_.add_dots(a.tangents, a.d_weights, count, tile.queries, sums);
      gradients_.add_dots(a.scores, a.d_weights_tangents, count, tile.queries, sums);
    });
    unit_.for_each_tile([&](const QueryTile<E>& tile) { finish_row_values(tile); });
    unit_.save(Unit::kLseTangent, lse_tangents);
    unit_.save(Unit::kDelta, deltas);
    unit_.save(Unit::kDeltaTangent, delta_tangents);
  }

  // Starts a work unit whose row values are computed. Returns false if it attends to none of these
  // keys.
  bool begin_unit_of(Positions positions, KeyRange keys, const E* lse_tangents, const E* deltas,
                     const E* delta_tangents) noexcept {
    unit_.begin(positions);
    const KeyRange range = unit_.range();
    if (std::max(range.begin, keys.begin) >= std::min(range.end, keys.end)) return false;
    unit_.pack_queries();
    unit_.pack_d_output();
    unit_.load(Unit::kLseTangent, lse_tangents);
    unit_.load(Unit::kDelta, deltas);
    unit_.load(Unit::kDeltaTangent, delta_tangents);
    return true;
  }

  // Second derivatives, queries' side. Of sums [2] tiles [head_dim][queries],
  // the first += dZ' K + dZ K', the second += dZ K.
  void add_to_queries(E* sums) noexcept {
    walk_keys([&](QueryTile<E>& tile, const TileKeys& keys, const Arrays& a) {
      pairs_.make_gradients(tile, keys, a, nullptr);
      E* const tangent_sums = sums + tile.offset * p_.head_dim;
      add_rows(tile, keys, a.d_weights_tangents, Keys::kKey, tangent_sums);
      if (in_.key.data) add_rows(tile, keys, a.d_weights, Keys::kKeyTangent, tangent_sums);
      if (in_.scale != 0 || call_.wanted.scale)
        add_rows(tile, keys, a.d_weights, Keys::kKey, tangent_sums + unit_queries() * p_.head_dim);
    });
  }
  // Stores d_query' of a work unit from these sums, which are overwritten. Returns its contribution
  // to dscale'.
  double store_queries(Positions positions, E* sums) noexcept {
    unit_.begin(positions);
    double dots = 0;
    unit_.for_each_tile([&](const QueryTile<E>& tile) {
      E* const tangent_sums = sums + tile.offset * p_.head_dim;
      const E* const primal_sums = tangent_sums + unit_queries() * p_.head_dim;
      if (call_.wanted.scale) {
        dots += dots_with(p_.query, tile, tangent_sums);
        if (in_.query.data) dots += dots_with(in_.query, tile, primal_sums);
      }
      const auto scale = static_cast<E>(p_.scale), d_scale = static_cast<E>(in_.scale);
      for (int64_t x = 0; x < p_.head_dim * tile.queries; ++x) {
        tangent_sums[x] *= scale;
        if (d_scale != 0) tangent_sums[x] += d_scale * primal_sums[x];
      }
      if (call_.targets.query.data)
        store_rows(tangent_sums, p_.head_dim, tile, call_.targets.query);
    });
    return dots;
  }

  // Loads keys for add_to_keys(): at most a part, from a multiple of the block length on.
  // `queries`: all that add to their sums.
  void load_keys(Positions keys, Positions queries) noexcept { keys_.load(keys, queries); }

  // Second derivatives, keys' side: adds the work unit to the sums of the loaded keys. The query
  // rows contain the scale; dropout's factor is applied at the end.
  void add_to_keys(const TangentKeySums<E>& sums) noexcept {
    Finite queries_finite, d_output_finite;
    keys_.for_each_block(unit_.positions(), unit_.range(), [&](Positions keys) {
      Spans values, scores;
      bool partial = false;
      for (int64_t i = 0; i < unit_.tile_count(); ++i) {
        QueryTile<E>& tile = unit_.tile(i);
        const Arrays a = pairs_.arrays_of(i);
        const TileKeys made = pairs_.make_scores(tile, keys, a);
        if (made.none()) continue;
        pairs_.make_gradients(tile, made, a, &sums);
        const uint64_t* const allowed = made.allowed();
        partial |= made.partial;
        values.add(tile, a.tangents, unit_.d_output_rows(tile), allowed);
        if (in_.d_output.data) values.add(tile, a.scores, unit_.d_output_tangents(tile), allowed);
        scores.add(tile, a.d_weights_tangents, unit_.query_rows(tile), allowed);
        if (in_.has_query_tangents())
          scores.add(tile, a.d_weights, unit_.query_tangents(tile), allowed);
      }
      const int64_t at = keys.start - keys_.first();
      if (call_.wanted.value)
        values.add_to(kernels_.route.key_gradients, keys, sums.d_value + at * p_.value_dim,
                      partial && !unit_.d_output_finite(d_output_finite));
      if (call_.wanted.key)
        scores.add_to(kernels_.route.key_gradients, keys, sums.d_key + at * p_.head_dim,
                      partial && !unit_.queries_finite(queries_finite));
    });
  }

 private:
  using Unit = TangentUnit<E>;
  using Keys = TangentKeys<E>;
  using Arrays = TangentArrays<E>;

  // Products that are summed together: of all tiles of a work unit, of weights and of their
  // tangents.
  struct Spans {
    static constexpr int kMost = 2 * 16;  // tiles of a work unit, of one vector of 4 lanes or more
    GradientSpan<E> span[kMost];
    int64_t count = 0, dims = 0;

    void add(const QueryTile<E>& tile, const E* weights, typename Unit::Rows rows,
             const uint64_t* bits) noexcept {
      dims = rows.dims;
      span[count++] = {weights, tile.queries, rows.data, dims, tile.positions.count, bits};
    }
    void add_to(const KeyGradientKernels<E>& kernels, Positions keys, E* sums,
                bool slow) const noexcept {
      if (count > 0)
        (slow ? kernels.add_of_bits : kernels.add)(span, count, keys.count, dims, sums, dims);
    }
  };

  // Calls visit(tile, tile_keys, arrays) with the scores of all blocks that the work unit attends
  // to, and their tangents.
  template <class Visit>
  void walk_keys(const Visit& visit) noexcept {
    const KeyRange range = unit_.range();
    const int64_t part = key_part(call_.plan);
    for (int64_t at = range.begin / part * part; at < range.end && !stopped(); at += part) {
      if (!keys_.load({at, 1, std::min(part, sequence().k_len - at)}, unit_.positions())) continue;
      keys_.for_each_block(unit_.positions(), range, [&](Positions keys) {
        for (int64_t i = 0; i < unit_.tile_count(); ++i) {
          const Arrays a = pairs_.arrays_of(i);
          const TileKeys made = pairs_.make_scores(unit_.tile(i), keys, a);
          if (!made.none()) visit(unit_.tile(i), made, a);
        }
      });
    }
  }

  // sums [dims][queries] += rows^T weights.
  void add_rows(const QueryTile<E>& tile, const TileKeys& tile_keys, const E* weights,
                typename Keys::Rows which, E* sums) noexcept {
    const Positions keys = tile_keys.positions;
    const E* const rows = keys_.rows(which, keys.start);
    const int64_t dims = keys_.dims_of(which);
    // 0 * NaN is NaN: see Forward::add_values().
    if (tile_keys.partial && !keys_.finite(which, keys))
      kernels_.route.output_of_bits(weights, tile_keys.bits, rows, 2 * dims, keys.count, dims,
                                    nullptr, tile.queries, sums);
    else
      kernels_.route.products[tile.vectors - 1].output(weights, rows, 2 * dims, keys.count, dims,
                                                       nullptr, sums);
  }

  void store_rows(const E* rows_t, int64_t dims, const QueryTile<E>& tile,
                  const Operand& out) noexcept {
    rapt::store_rows<E>(tiles_, kernels_.table, rows_t, dims, tile, nullptr, ~uint64_t{0}, out);
  }

  // Rows of a tile, transposed to temporary scratch.
  const E* rows_t(const Operand& from, const QueryTile<E>& tile, int64_t dims) noexcept {
    E* const to = tiles_.at(places_.rows_t);
    pack_rows_t(*kernels_.table.fma[static_cast<int>(from.dtype)], tiles_, from, tile, dims, to);
    return to;
  }

  // Stores O' = sums - lse' O, and lse'.
  void store_results(const QueryTile<E>& tile, E* sums) noexcept {
    const E* const lse_tangent = unit_.row_value(Unit::kLseTangent) + tile.offset;
    if (call_.state.output.data) {
      // Without a statistic nothing is subtracted, not even 0 times an output that overflowed.
      if (kernels_.normalizer.statistic != Statistic::none) {
        const E* const output_t = rows_t(in_.primal.output, tile, p_.value_dim);
        for (int64_t c = 0; c < p_.value_dim; ++c)
          for (int64_t i = 0; i < tile.queries; ++i)
            sums[c * tile.queries + i] -= lse_tangent[i] * output_t[c * tile.queries + i];
      }
      store_rows(sums, p_.value_dim, tile, call_.state.output);
    }
    store_rows(lse_tangent, 1, tile, call_.state.statistic);
  }

  // delta = rowsum(dO o O) - dlse. Its tangent follows from the sums of P o S' o dP + P o dP'.
  void finish_row_values(const QueryTile<E>& tile) noexcept {
    E* const delta = unit_.row_value(Unit::kDelta) + tile.offset;
    E* const delta_tangent = unit_.row_value(Unit::kDeltaTangent) + tile.offset;
    const E* const lse_tangent = unit_.row_value(Unit::kLseTangent) + tile.offset;
    if (p_.value_dim > 0)
      gradients_.add_dots(unit_.d_output_pair_t(tile) + p_.value_dim * tile.queries,
                          rows_t(in_.primal.output, tile, p_.value_dim), p_.value_dim, tile.queries,
                          delta);
    for (int64_t i = 0; i < tile.queries; ++i) delta_tangent[i] -= lse_tangent[i] * delta[i];
    const auto subtract = [&](const Operand& from, E* numbers) {
      if (!from.data) return;
      E* const column = tiles_.row(kStatistic);
      read_column(tiles_, from, tile, E(0), column);
      for (int64_t i = 0; i < tile.queries; ++i) numbers[i] -= column[i];
    };
    subtract(in_.primal.d_statistic, delta);
    subtract(in_.d_statistic, delta_tangent);
  }

  // The sum over the tile's queries of rows . sums. A sum of 0 adds nothing, even if the row's
  // element is NaN: its query may attend to no key.
  double dots_with(const Operand& from, const QueryTile<E>& tile, const E* sums) noexcept {
    const E* const numbers_t = rows_t(from, tile, p_.head_dim);
    double sum = 0;
    for (int64_t d = 0; d < p_.head_dim; ++d)
      for (int64_t i = 0; i < tile.positions.count; ++i)
        if (const int64_t x = d * tile.queries + i; sums[x] != 0)
          sum += static_cast<double>(sums[x]) * static_cast<double>(numbers_t[x]);
    return sum;
  }

  const TangentCall<E>& call_;
  const Problem& p_;
  const TangentInputs& in_;
  const TangentTilePlaces<E>& places_;
  const Kernels<E>& kernels_;
  const GradientKernels<E>& gradients_;
  ScoreTiles<E> tiles_;
  Unit unit_;
  Keys keys_;  // the loaded keys
  TangentPairs<E> pairs_;
};

}  // namespace rapt
