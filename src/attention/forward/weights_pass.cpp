// Returned weights or scores: a second pass over the scores of the requested rows. The normaliser's
// state, which the first pass saved, turns scores into weights. On request the scores are returned.
//
// Requested rows come in any order. Score functions take positions as (start, step, count), so a
// tile holds successive requested rows with equal steps: part of a range or of the chosen rows.
#include <limits>

#include "attention/forward/saved_state.h"

namespace rapt {
namespace {

// Requested rows per task: at most as many as a query tile has.
int64_t rows_per_task(const Tiling& t) { return t.long_vectors * t.lanes; }

template <class E>
void fill_row(std::byte* row, int64_t k_len, int64_t stride, E value) noexcept {
  for (int64_t j = 0; j < k_len; ++j) reinterpret_cast<E*>(row)[j * stride] = value;
}

// Writes the requested rows [begin, end) of the nth requested head.
template <class E>
void write_weights(const PassInput<E>& in, int worker, int64_t nth, int64_t begin,
                   int64_t end) noexcept {
  const ForwardCall<E>& call = in.call;
  const Problem& p = call.problem;
  const RequestedWeights& w = call.captures.weights;
  const Operand& out = call.outputs.weights;
  const bool scores = w.stage == WeightsStage::scores;
  const E excluded = scores ? -std::numeric_limits<E>::infinity() : E{0};
  ScoreTiles<E> tiles(call, in.cancel, worker);
  tiles.begin_head(w.heads[nth], 0);
  const int64_t to_head = w.heads.chosen.empty() ? tiles.offset_of(out) : nth * out.lead_strides[0];

  while (begin < end) {
    Positions rows{w.row(begin), 1, 1};
    if (begin + 1 < end && w.row(begin + 1) > w.row(begin)) {
      rows.step = w.row(begin + 1) - w.row(begin);
      while (begin + rows.count < end && w.row(begin + rows.count) == rows[rows.count])
        ++rows.count;
    }
    std::byte* const first_row = out.at(to_head + begin * out.row_stride);
    const auto at = [&](int64_t row, int64_t key) {
      return first_row + (row * out.row_stride + key * out.dim_stride) * int64_t{sizeof(E)};
    };
    for (int64_t i = 0; i < rows.count; ++i) fill_row(at(i, 0), p.k_len, out.dim_stride, excluded);

    QueryTile<E> tile;
    tiles.begin_tile(tile, rows, call.tiling.vectors(rows.count), 0);
    // Scores in log2 units (tile.h) are converted to natural units.
    E* factor = nullptr;
    if (scores && tile.hooks.log2_units) {
      constexpr double kLn2 = 0.6931471805599453;
      factor =
          std::fill_n(tiles.row(kMultiplier), tile.queries, static_cast<E>(kLn2)) - tile.queries;
    }
    if (!scores) restore_state(in, tiles, tile);
    tiles.for_each_block(
        &tile, 1, Values::skip, [&](QueryTile<E>& one, KeyBlock&, const TileKeys& keys) {
          if (!scores) tiles.final_weights(one, keys);
          const uint64_t stored = scores ? low_bits(rows.count) : one.attended;
          call.kernels.table.store_rows[static_cast<int>(out.dtype)](
              one.hooks.scores, keys.positions.count, one.queries, factor, stored, rows.count,
              at(0, keys.positions.start), out.row_stride, out.dim_stride);
        });
    begin += rows.count;
  }
}

}  // namespace

template <class E>
Pass<E> weights_pass(const PassInput<E>& input) {
  if (!input.call.outputs.weights.data) return {};
  const RequestedWeights& weights = input.call.captures.weights;
  return {weights.heads.count * ceil_div(weights.rows, rows_per_task(input.call.tiling)),
          [](const PassInput<E>& in, int64_t task, int worker) noexcept {
            const int64_t per_task = rows_per_task(in.call.tiling);
            const int64_t rows = in.call.captures.weights.rows, tasks = ceil_div(rows, per_task);
            const int64_t begin = task % tasks * per_task;
            write_weights(in, worker, task / tasks, begin, std::min(rows, begin + per_task));
          }};
}

template Pass<float> weights_pass(const PassInput<float>&);
template Pass<double> weights_pass(const PassInput<double>&);

}  // namespace rapt
