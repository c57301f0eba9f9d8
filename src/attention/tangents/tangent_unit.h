#pragma once
// A work unit of queries in a walk over the keys: its tiles, its rows beside their tangents in the
// form that the products read, and its row values. The code is in the header because it is a
// template over E.
#include <new>

#include "attention/tangents/tangents.h"
#include "attention/tiles/score_tiles.h"
#include "attention/tiles/tile_rows.h"

namespace rapt {

// Scratch of TangentUnit. A pair holds two matrices side by side, the tangents first, so that one
// product sums over both.
template <class E>
struct TangentUnitPlaces {
  Place<QueryTile<E>> tiles;  // [tiles]
  Place<E> query_rows;        // [unit queries][head_dim]: scale Q
  Place<E> query_tangents;    // the same: scale Q' + scale' Q
  Place<E> query_t;           // tiles [2 head_dim][queries]: a pair
  Place<E> row_values;        // [4][unit queries]: TangentUnit::RowValue
  // For second derivatives:
  Place<E> d_output_rows, d_output_tangents;  // [unit queries][value_dim]
  Place<E> d_output_t;                        // tiles [2 value_dim][queries]: a pair

  void reserve(GradientScratch<E>& scratch, bool second) {
    auto& memory = scratch.worker;
    const int64_t head_dim = scratch.problem.head_dim, value_dim = scratch.problem.value_dim;
    memory.place(tiles, {scratch.tiles});
    memory.place(query_rows, {scratch.unit, head_dim});
    memory.place(query_tangents, {scratch.unit, head_dim});
    memory.place(query_t, {scratch.unit, 2 * head_dim});
    memory.place(row_values, {4, scratch.unit});
    if (!second) return;
    memory.place(d_output_rows, {scratch.unit, value_dim});
    memory.place(d_output_tangents, {scratch.unit, value_dim});
    memory.place(d_output_t, {scratch.unit, 2 * value_dim});
  }
};

template <class E>
class TangentUnit {
 public:
  // Row values: one number per query, in rows [unit queries].
  enum RowValue : uint8_t { kLse, kLseTangent, kDelta, kDeltaTangent };
  struct Rows {
    const E* data;
    int64_t dims;
  };

  TangentUnit(const TangentCall<E>& call, ScoreTiles<E>& tiles)
      : p_(call.problem()),
        in_(call.inputs),
        places_(call.layout.unit),
        tiling_(call.plan.tiling),
        kernels_(call.forward.kernels),
        tiles_(tiles),
        most_queries_(places_.row_values.columns()) {}

  // Selects these queries, whose rows are not packed yet.
  void begin(Positions positions) noexcept {
    positions_ = positions;
    range_ = {tiles_.sequence().k_len, 0};
    tile_count_ = tiling_.for_each_tile(
        positions, [&](int64_t n, Positions queries, int vectors, int64_t offset) {
          QueryTile<E>& one = *new (&tile(n)) QueryTile<E>;
          tiles_.place_tile(one, queries, vectors, offset);
          one.query_t = query_pair_t(one) + p_.head_dim * one.queries;
          if (one.range.begin < one.range.end)
            range_ = {std::min(range_.begin, one.range.begin), std::max(range_.end, one.range.end)};
        });
  }

  Positions positions() const noexcept { return positions_; }
  KeyRange range() const noexcept { return range_; }               // holds all attended keys
  int64_t most_queries() const noexcept { return most_queries_; }  // of any work unit, padded
  int64_t tile_count() const noexcept { return tile_count_; }
  QueryTile<E>& tile(int64_t i) const noexcept { return *tiles_.at(places_.tiles, i); }
  template <class Visit>
  void for_each_tile(const Visit& visit) const noexcept {
    for (int64_t i = 0; i < tile_count_; ++i) visit(tile(i));
  }

  E* row_value(RowValue n) const noexcept { return tiles_.at(places_.row_values, n); }
  void clear(RowValue n) const noexcept { std::fill_n(row_value(n), most_queries_, E(0)); }
  // Copies a row value of the work unit's queries from or to arrays of the call.
  void load(RowValue n, const E* from) const noexcept {
    std::fill(std::copy_n(from, positions_.count, row_value(n)), row_value(n) + most_queries_,
              E(0));
  }
  void save(RowValue n, E* to) const noexcept { std::copy_n(row_value(n), positions_.count, to); }

  // Packs scale Q and scale Q' + scale' Q, as rows and transposed, and reads lse.
  void pack_queries() noexcept {
    const int64_t count = positions_.count * p_.head_dim;
    E* const query = tiles_.at(places_.query_rows);
    E* const tangents = tiles_.at(places_.query_tangents);
    const auto scale = static_cast<E>(p_.scale), d_scale = static_cast<E>(in_.scale);
    pack_rows(p_.query, p_.head_dim, query);
    if (in_.query.data) {
      pack_rows(in_.query, p_.head_dim, tangents);
      for (int64_t x = 0; x < count; ++x) tangents[x] *= scale;
    } else if (in_.has_query_tangents()) {
      std::fill_n(tangents, count, E(0));
    }
    if (d_scale != 0)
      for (int64_t x = 0; x < count; ++x) tangents[x] += d_scale * query[x];
    for (int64_t x = 0; x < count; ++x) query[x] *= scale;
    for_each_tile([&](const QueryTile<E>& tile) {
      E* const pair_t = query_pair_t(tile);
      if (in_.has_query_tangents()) transpose(query_tangents(tile), tile, pair_t);
      transpose(query_rows(tile), tile, pair_t + p_.head_dim * tile.queries);
      read_column(tiles_, in_.primal.statistic, tile, -E(__builtin_inf()),
                  row_value(kLse) + tile.offset);
    });
  }
  // Packs dO and dO', as rows and transposed.
  void pack_d_output() noexcept {
    pack_rows(in_.primal.d_output, p_.value_dim, tiles_.at(places_.d_output_rows));
    if (in_.d_output.data)
      pack_rows(in_.d_output, p_.value_dim, tiles_.at(places_.d_output_tangents));
    for_each_tile([&](const QueryTile<E>& tile) {
      E* const pair_t = d_output_pair_t(tile);
      if (in_.d_output.data) transpose(d_output_tangents(tile), tile, pair_t);
      transpose(d_output_rows(tile), tile, pair_t + p_.value_dim * tile.queries);
    });
  }

  // Pairs of a tile, transposed, tangents first: [2 dims][queries].
  E* query_pair_t(const QueryTile<E>& tile) const noexcept {
    return tiles_.at(places_.query_t, tile.offset);
  }
  E* d_output_pair_t(const QueryTile<E>& tile) const noexcept {
    return tiles_.at(places_.d_output_t, tile.offset);
  }
  // Rows of a tile. Those of the query and its tangents contain the scale.
  Rows query_rows(const QueryTile<E>& tile) const noexcept {
    return rows(places_.query_rows, tile);
  }
  Rows query_tangents(const QueryTile<E>& tile) const noexcept {
    return rows(places_.query_tangents, tile);
  }
  Rows d_output_rows(const QueryTile<E>& tile) const noexcept {
    return rows(places_.d_output_rows, tile);
  }
  Rows d_output_tangents(const QueryTile<E>& tile) const noexcept {
    return rows(places_.d_output_tangents, tile);
  }

  // Whether all rows of the work unit, and their tangents if any, are finite.
  bool queries_finite(Finite& known) const noexcept {
    return finite(known, places_.query_rows, in_.has_query_tangents(), places_.query_tangents);
  }
  bool d_output_finite(Finite& known) const noexcept {
    return finite(known, places_.d_output_rows, in_.d_output.data, places_.d_output_tangents);
  }

 private:
  Rows rows(const Place<E>& unit_rows, const QueryTile<E>& tile) const noexcept {
    return {tiles_.at(unit_rows, tile.offset), unit_rows.columns()};
  }

  // Converts rows of the work unit to dense rows of E.
  void pack_rows(const Operand& from, int64_t dims, E* to) const noexcept {
    kernels_.table.fma[static_cast<int>(from.dtype)]->pack_keys(
        tiles_.query_row(from, positions_.start), from.row_stride, from.dim_stride,
        positions_.count, dims, to);
  }
  // Transposes dense rows of a tile.
  void transpose(Rows from, const QueryTile<E>& tile, E* to) const noexcept {
    kernels_.table.fma[static_cast<int>(p_.result_dtype)]->pack_queries(
        from.data, from.dims, 1, tile.positions.count, from.dims, E(1), tile.queries, to);
  }

  bool finite(Finite& known, const Place<E>& primal, bool has_tangents,
              const Place<E>& tangent) const noexcept {
    const auto all = [&](const Place<E>& of) {
      return kernels_.route.all_finite(tiles_.at(of), of.columns(), positions_.count, of.columns());
    };
    return known.known_or([&] { return all(primal) && (!has_tangents || all(tangent)); });
  }

  const Problem& p_;
  const TangentInputs& in_;
  const TangentUnitPlaces<E>& places_;
  const Tiling& tiling_;
  const Kernels<E>& kernels_;
  ScoreTiles<E>& tiles_;
  int64_t most_queries_;
  Positions positions_ = {0, 1, 0};
  int64_t tile_count_ = 0;
  KeyRange range_ = {0, 0};
};

}  // namespace rapt
