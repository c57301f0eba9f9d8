#pragma once
// Rows of a tile's queries in tile layout: one lane per query, padded to whole vectors. The code is
// in the header because the functions are templates over E.
#include "attention/tiles/score_tiles.h"

namespace rapt {

// Transposes rows of a tile to [dims][queries] of the route's elements.
template <class E>
void pack_rows_t(const RouteKernels<E>& route, const ScoreTiles<E>& tiles, const Operand& rows,
                 const QueryTile<E>& tile, int64_t dims, void* to) noexcept {
  route.pack_queries(tiles.query_row(rows, tile.positions.start), rows.row_stride, rows.dim_stride,
                     tile.positions.count, dims, E(1), tile.queries, to);
}

// Reads one number per query; lanes after the last query get `beyond`.
template <class E>
void read_column(const ScoreTiles<E>& tiles, const Operand& from, const QueryTile<E>& tile,
                 E beyond, E* to) noexcept {
  const std::byte* row = tiles.query_row(from, tile.positions.start);
  for (int64_t i = 0; i < tile.queries; ++i, row += from.row_stride * int64_t{sizeof(E)})
    to[i] = i < tile.positions.count ? *reinterpret_cast<const E*>(row) : beyond;
}

// Stores rows of a tile [dims][queries], times `factor` [queries]; null: 1. Rows of queries whose
// bit in `present` is clear are stored as 0. Rows at two strides hold at most value_dim elements or
// those of a key block.
template <class E>
void store_rows(const ScoreTiles<E>& tiles, const KernelTable<E>& table, const E* rows_t,
                int64_t dims, const QueryTile<E>& tile, const E* factor, uint64_t present,
                const Operand& target) noexcept {
  const auto store = [&](std::byte* to, int64_t row_stride, int64_t dim_stride) {
    table.store_rows[static_cast<int>(target.dtype)](rows_t, dims, tile.queries, factor, present,
                                                     tile.positions.count, to, row_stride,
                                                     dim_stride);
  };
  if (target.run_rows == 0) {
    store(tiles.query_row(target, tile.positions.start), target.row_stride, target.dim_stride);
    return;
  }
  std::byte* const dense = tiles.group().dense_rows();
  store(dense, dims, 1);
  scatter_rows(dense, tile.positions, dims, target, tiles.query_row(target, 0));
}

}  // namespace rapt
