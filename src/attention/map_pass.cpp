// The pooled map of the weights: a second pass over the scores, a tile of queries after the other.
//
// A task owns whole rows of cells, so that nobody else writes to them. Weights are pooled first
// over the keys of a cell, where queries are lanes, then over its queries. Cells are summed in
// double: one of 60,000 x 60,000 pairs was half a percent off in f32.
#include <cmath>

#include "attention/score_tiles.h"

namespace rapt {
namespace {

// Cell c of `cells` begins at this position of `length`.
int64_t begin_of_cell(int64_t c, int64_t length, int64_t cells) {
  // Nearly every product fits 64 bits, whose division is several times as fast.
  if (int64_t product; !__builtin_mul_overflow(c, length, &product)) return product / cells;
  return static_cast<int64_t>(static_cast<__int128>(c) * length / cells);
}
// The cell of a position: the last one that begins at or before it.
int64_t cell_of(int64_t position, int64_t length, int64_t cells) {
  return static_cast<int64_t>((static_cast<__int128>(position + 1) * cells - 1) / length);
}

template <class E>
class MapTask {
 public:
  MapTask(const ForwardCall<E>& call, const CancelToken* cancel, int worker)
      : call_(call),
        p_(call.problem),
        map_(call.captures.map),
        out_(call.outputs.map),
        tiles_(call, cancel, worker) {}

  // The rows of cells [begin, end) of the nth requested head.
  void run(int64_t nth, int64_t begin, int64_t end) noexcept {
    tiles_.begin_head(map_.heads[nth], 0);
    begin_ = begin;
    cells_ = tiles_.template scratch<double>(call_.layout.cells);
    std::fill_n(cells_, (end - begin) * map_.columns, 0.0);

    const int64_t lanes = call_.tiling.lanes, widest = call_.tiling.long_vectors * lanes;
    const int64_t last = begin_of_cell(end, p_.q_len, map_.rows);
    for (int64_t q = begin_of_cell(begin, p_.q_len, map_.rows); q < last; q += widest) {
      QueryTile<E> tile;
      const Positions queries{q, 1, std::min(widest, last - q)};
      tiles_.begin_tile(tile, queries, call_.tiling.vectors(queries.count), 0);
      tiles_.restore_state(tile);
      cut_rows(queries);
      tiles_.for_each_block(&tile, 1, Values::leave,
                            [&](QueryTile<E>& one, KeyBlock&, int64_t) { pool(one); });
    }
    if (tiles_.stopped()) return;
    const int64_t head =
        map_.heads.chosen.empty() ? tiles_.offset_of(out_) : nth * out_.lead_strides[0];
    for (int64_t a = begin; a < end; ++a) write_row(a, head);
  }

 private:
  // Where the cells of a tile's queries end among its lanes.
  void cut_rows(const Positions& queries) noexcept {
    first_row_ = cell_of(queries.start, p_.q_len, map_.rows);
    rows_ = 0;
    for (int64_t end = 0; end < queries.count; ++rows_) {
      end = begin_of_cell(first_row_ + rows_ + 1, p_.q_len, map_.rows) - queries.start;
      row_end_[rows_] = static_cast<int>(std::min(end, queries.count));
    }
  }

  void pool(QueryTile<E>& tile) noexcept {
    tiles_.final_weights(tile);
    const Positions& keys = tile.hooks.key_positions;
    E* const pooled = tiles_.row(2);  // [queries]
    int64_t b = cell_of(keys.start, p_.k_len, map_.columns);
    for (int64_t j = 0; j < keys.count; ++b) {
      const int64_t end =
          std::min(keys.count, begin_of_cell(b + 1, p_.k_len, map_.columns) - keys.start);
      call_.kernels.table.captures.pool_keys(tile.hooks.scores + j * tile.queries, end - j,
                                             tile.queries, map_.pool == Pool::max, pooled);
      add_to_cells(b, pooled);
      j = end;
    }
  }

  void add_to_cells(int64_t b, const E* pooled) noexcept {
    for (int64_t a = 0, i = 0; a < rows_; ++a) {
      double& out = cell(first_row_ + a, b);
      if (map_.pool == Pool::max) {
        for (; i < row_end_[a]; ++i)
          if (!(pooled[i] <= out)) out = std::isnan(out) ? out : pooled[i];
      } else {
        E sum = 0;  // of a tile's lanes: too few to lose digits
        for (; i < row_end_[a]; ++i) sum += pooled[i];
        out += sum;
      }
    }
  }

  void write_row(int64_t a, int64_t head) noexcept {
    const auto length = [](int64_t c, int64_t whole, int64_t cells) {
      return static_cast<double>(begin_of_cell(c + 1, whole, cells) -
                                 begin_of_cell(c, whole, cells));
    };
    const double rows = length(a, p_.q_len, map_.rows);
    for (int64_t b = 0; b < map_.columns; ++b) {
      const double pairs = rows * length(b, p_.k_len, map_.columns);
      const double value = map_.pool == Pool::mean ? cell(a, b) / pairs : cell(a, b);
      *reinterpret_cast<E*>(out_.at(head + a * out_.row_stride + b * out_.dim_stride)) =
          static_cast<E>(value);
    }
  }

  double& cell(int64_t a, int64_t b) const noexcept {
    return cells_[(a - begin_) * map_.columns + b];
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const RequestedMap& map_;
  const Operand& out_;
  ScoreTiles<E> tiles_;
  int64_t begin_ = 0;        // the first row of cells
  int64_t first_row_ = 0;    // of the tile
  int rows_ = 0;             // rows of cells that the tile takes part in
  int row_end_[64];          // [rows_] the lanes of a tile that belong to them; a mask word at most
  double* cells_ = nullptr;  // [rows of the task][columns]
};

}  // namespace

template <class E>
Pass<E> map_pass(const ForwardCall<E>& call) {
  if (!call.outputs.map.data) return {};
  const int64_t per_task = map_rows_per_task(call.problem, call.captures.map, call.tiling);
  const int64_t per_head = (call.captures.map.rows + per_task - 1) / per_task;
  return {
      call.captures.map.heads.count * per_head,
      [](const ForwardCall<E>& c, const CancelToken* cancel, int64_t task, int worker) noexcept {
        const int64_t rows = map_rows_per_task(c.problem, c.captures.map, c.tiling);
        const int64_t tasks = (c.captures.map.rows + rows - 1) / rows;
        const int64_t begin = task % tasks * rows;
        MapTask<E>(c, cancel, worker)
            .run(task / tasks, begin, std::min(c.captures.map.rows, begin + rows));
      }};
}

template Pass<float> map_pass(const ForwardCall<float>&);
template Pass<double> map_pass(const ForwardCall<double>&);

}  // namespace rapt
