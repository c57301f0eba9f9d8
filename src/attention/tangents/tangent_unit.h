#pragma once
// A work unit of queries in a walk over the keys: its tiles, its rows beside their tangents in the
// form that the products read, and its row values. The code is in the header because it is a
// template over E.
#include <new>

#include "attention/tangents/tangents.h"
#include "attention/tiles/score_tiles.h"
#include "attention/tiles/tile_rows.h"

namespace rapt {

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
        layout_(call.layout),
        tiling_(call.plan.tiling),
        kernels_(call.forward.kernels),
        tiles_(tiles),
        most_queries_(std::min(tiling_.unit_queries, call.plan.longest_query)) {}

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
  QueryTile<E>& tile(int64_t i) const noexcept {
    return tiles_.template scratch<QueryTile<E>>(layout_.tiles)[i];
  }
  template <class Visit>
  void for_each_tile(const Visit& visit) const noexcept {
    for (int64_t i = 0; i < tile_count_; ++i) visit(tile(i));
  }

  E* row_value(RowValue n) const noexcept {
    return scratch(layout_.row_values) + n * most_queries_;
  }
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
    E* const query = scratch(layout_.query_rows);
    E* const tangents = scratch(layout_.query_tangents);
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
    pack_rows(in_.primal.d_output, p_.value_dim, scratch(layout_.d_output_rows));
    if (in_.d_output.data)
      pack_rows(in_.d_output, p_.value_dim, scratch(layout_.d_output_tangents));
    for_each_tile([&](const QueryTile<E>& tile) {
      E* const pair_t = d_output_pair_t(tile);
      if (in_.d_output.data) transpose(d_output_tangents(tile), tile, pair_t);
      transpose(d_output_rows(tile), tile, pair_t + p_.value_dim * tile.queries);
    });
  }

  // Pairs of a tile, transposed, tangents first: [2 dims][queries].
  E* query_pair_t(const QueryTile<E>& tile) const noexcept {
    return scratch(layout_.query_t) + 2 * tile.offset * p_.head_dim;
  }
  E* d_output_pair_t(const QueryTile<E>& tile) const noexcept {
    return scratch(layout_.d_output_t) + 2 * tile.offset * p_.value_dim;
  }
  // Rows of a tile. Those of the query and its tangents contain the scale.
  Rows query_rows(const QueryTile<E>& tile) const noexcept {
    return rows(layout_.query_rows, p_.head_dim, tile);
  }
  Rows query_tangents(const QueryTile<E>& tile) const noexcept {
    return rows(layout_.query_tangents, p_.head_dim, tile);
  }
  Rows d_output_rows(const QueryTile<E>& tile) const noexcept {
    return rows(layout_.d_output_rows, p_.value_dim, tile);
  }
  Rows d_output_tangents(const QueryTile<E>& tile) const noexcept {
    return rows(layout_.d_output_tangents, p_.value_dim, tile);
  }

  // Whether all rows of the work unit, and their tangents if any, are finite; computed if `known`
  // is unknown.
  bool queries_finite(Finite& known) const noexcept {
    return finite(known, layout_.query_rows, in_.has_query_tangents(), layout_.query_tangents,
                  p_.head_dim);
  }
  bool d_output_finite(Finite& known) const noexcept {
    return finite(known, layout_.d_output_rows, in_.d_output.data, layout_.d_output_tangents,
                  p_.value_dim);
  }

 private:
  E* scratch(size_t offset) const noexcept { return tiles_.template scratch<E>(offset); }
  Rows rows(size_t unit_rows, int64_t dims, const QueryTile<E>& tile) const noexcept {
    return {scratch(unit_rows) + tile.offset * dims, dims};
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

  bool finite(Finite& known, size_t primal, bool has_tangents, size_t tangent,
              int64_t dims) const noexcept {
    const auto all = [&](size_t at) {
      return kernels_.route.all_finite(scratch(at), dims, positions_.count, dims);
    };
    if (known == Finite::unknown)
      known = all(primal) && (!has_tangents || all(tangent)) ? Finite::yes : Finite::no;
    return known == Finite::yes;
  }

  const Problem& p_;
  const TangentInputs& in_;
  const TangentLayout& layout_;
  const Tiling& tiling_;
  const Kernels<E>& kernels_;
  ScoreTiles<E>& tiles_;
  int64_t most_queries_;
  Positions positions_ = {0, 1, 0};
  int64_t tile_count_ = 0;
  KeyRange range_ = {0, 0};
};

}  // namespace rapt
