// The pooled map of the weights: a second pass over the scores, one query tile after the other.
//
// A task owns whole rows of cells, so no other task writes to them. Weights are pooled first over
// the keys of a cell, where queries are lanes, then over its queries. Cells are summed in double:
// in f32 the sum of a cell of 60,000 x 60,000 pairs was wrong by half a percent.
#include "attention/forward/saved_state.h"

namespace rapt {
namespace {

// Walks over the cells of `length` positions: cell c begins at c * length / cells, rounded down. It
// needs no division per cell: these divisions took a tenth of a call with cells of 4 x 4.
class Cells {
 public:
  Cells(int64_t cell, int64_t length, int64_t cells)
      : cells_(cells), whole_(length / cells), rest_(length % cells) {
    const auto product = static_cast<__int128>(cell) * length;
    end_ = static_cast<int64_t>(product / cells);
    remainder_ = static_cast<int64_t>(product % cells);
    next();
  }
  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  double length() const { return static_cast<double>(end_ - begin_); }
  void next() {
    begin_ = end_;
    remainder_ += rest_;
    const bool carry = remainder_ >= cells_;
    remainder_ -= carry ? cells_ : 0;
    end_ += whole_ + carry;
  }

 private:
  int64_t cells_, whole_, rest_;
  int64_t begin_, end_, remainder_;  // of (c + 1) * length / cells
};
// The cell of a position: the last one that begins at or before it.
int64_t cell_of(int64_t position, int64_t length, int64_t cells) {
  return static_cast<int64_t>((static_cast<__int128>(position + 1) * cells - 1) / length);
}

constexpr int kMostQueries = 64;  // of a tile: one bit each in the bits of a mask

// Finds the cells that overlap `range`; `cell` is that of its first position. ends[n] is where the
// nth of them ends, counted from range.start and at most range.count. Returns the number of cells.
int cut(Cells cell, const Positions& range, int* ends) {
  int count = 0;
  for (; cell.begin() < range.start + range.count; cell.next())
    ends[count++] = static_cast<int>(std::min(cell.end() - range.start, range.count));
  return count;
}

template <class E>
class MapTask {
 public:
  MapTask(const PassInput<E>& in, int worker)
      : in_(in),
        call_(in.call),
        p_(call_.problem),
        map_(call_.captures.map),
        out_(call_.outputs.map),
        tiles_(call_, in.cancel, worker) {}

  // Computes the rows of cells [begin, end) of the nth requested head.
  void run(int64_t nth, int64_t begin, int64_t end) noexcept {
    tiles_.begin_head(map_.heads[nth], 0);
    begin_ = begin;
    cells_ = tiles_.at(in_.layout.cells);
    std::fill_n(cells_, (end - begin) * map_.columns, 0.0);

    const int64_t lanes = call_.tiling.lanes, widest = call_.tiling.long_vectors * lanes;
    const int64_t last = Cells(end - 1, p_.q_len, map_.rows).end();
    for (int64_t q = Cells(begin, p_.q_len, map_.rows).begin(); q < last; q += widest) {
      QueryTile<E> tile;
      const Positions queries{q, 1, std::min(widest, last - q)};
      tiles_.begin_tile(tile, queries, call_.tiling.vectors(queries.count), 0);
      restore_state(in_, tiles_, tile);
      const TileCells rows = cells_of(queries);
      tiles_.for_each_block(
          &tile, 1, Values::skip,
          [&](QueryTile<E>& one, KeyBlock&, const TileKeys& keys) { pool(one, keys, rows); });
    }
    if (tiles_.stopped()) return;
    const int64_t head =
        map_.heads.chosen.empty() ? tiles_.offset_of(out_) : nth * out_.lead_strides[0];
    write(end, head);
  }

 private:
  // The rows of cells that overlap a tile.
  struct TileCells {
    int64_t first;
    int count;
    int ends[kMostQueries];  // [count]: where they end among the lanes of the tile
  };
  TileCells cells_of(const Positions& queries) const noexcept {
    TileCells rows;
    rows.first = cell_of(queries.start, p_.q_len, map_.rows);
    rows.count = cut({rows.first, p_.q_len, map_.rows}, queries, rows.ends);
    return rows;
  }

  void pool(QueryTile<E>& tile, const TileKeys& keys, const TileCells& rows) noexcept {
    tiles_.final_weights(tile, keys);
    const int64_t b = cell_of(keys.positions.start, p_.k_len, map_.columns);
    int column_end[kMostBlockKeys];
    const int columns = cut({b, p_.k_len, map_.columns}, keys.positions, column_end);
    call_.kernels.table.captures.pool(tile.hooks.scores, tile.queries, column_end, columns,
                                      rows.ends, rows.count, map_.pool == Pool::max,
                                      &cell(rows.first, b), map_.columns);
  }

  void write(int64_t end, int64_t head) noexcept {
    constexpr int64_t kColumns = 64;  // column lengths that all rows share; they stay in the L1
    const bool mean = map_.pool == Pool::mean;
    Cells column(0, p_.k_len, map_.columns);
    for (int64_t first = 0; first < map_.columns; first += kColumns) {
      const int64_t columns = std::min(kColumns, map_.columns - first);
      double keys[kColumns];
      for (int64_t b = 0; b < columns; ++b, column.next()) keys[b] = column.length();
      Cells row(begin_, p_.q_len, map_.rows);
      for (int64_t a = begin_; a < end; ++a, row.next()) {
        const double queries = row.length();
        const double* cells = &cell(a, first);
        E* out =
            reinterpret_cast<E*>(out_.at(head + a * out_.row_stride + first * out_.dim_stride));
        const int64_t stride = out_.dim_stride;
        // Divides instead of multiplying by the reciprocal, so that the mean of equal weights is
        // exactly their value.
        if (mean)
          for (int64_t b = 0; b < columns; ++b)
            out[b * stride] = static_cast<E>(cells[b] / (queries * keys[b]));
        else
          for (int64_t b = 0; b < columns; ++b) out[b * stride] = static_cast<E>(cells[b]);
      }
    }
  }

  double& cell(int64_t a, int64_t b) const noexcept {
    return cells_[(a - begin_) * map_.columns + b];
  }

  const PassInput<E>& in_;
  const ForwardCall<E>& call_;
  const Problem& p_;
  const RequestedMap& map_;
  const Operand& out_;
  ScoreTiles<E> tiles_;
  int64_t begin_ = 0;        // the first row of cells of the task
  double* cells_ = nullptr;  // [rows of the task][columns]
};

}  // namespace

template <class E>
Pass<E> map_pass(const PassInput<E>& input) {
  if (!input.call.outputs.map.data) return {};
  const RequestedMap& map = input.call.captures.map;
  const int64_t rows = map_rows_per_task(input.call.problem, map, input.call.tiling);
  return {map.heads.count * ceil_div(map.rows, rows),
          [](const PassInput<E>& in, int64_t task, int worker) noexcept {
            const RequestedMap& m = in.call.captures.map;
            const int64_t per_task = map_rows_per_task(in.call.problem, m, in.call.tiling);
            const int64_t tasks = ceil_div(m.rows, per_task), begin = task % tasks * per_task;
            MapTask<E>(in, worker).run(task / tasks, begin, std::min(m.rows, begin + per_task));
          }};
}

template Pass<float> map_pass(const PassInput<float>&);
template Pass<double> map_pass(const PassInput<double>&);

}  // namespace rapt
