#pragma once
// From the gradients of a tile's scores to those of the bias and of score functions. Second
// derivatives do the same with tangents of these gradients. The code is in the header because it is
// a template over E.
#include "attention/backward/query_unit.h"

namespace rapt {

// Adds the gradients of a tile's scores, d [keys][queries], to the gradient of the bias, `out`.
// `sum`: the sum of the cell, for a bias with one number per head. In two passes only the side that
// owns a number adds to it, in the same order.
template <class E>
void add_bias_gradient(const ScoreTiles<E>& tiles, const GradientKernels<E>& kernels,
                       const QueryTile<E>& tile, Positions keys, const E* d, Sides sides,
                       const Operand& out, double* sum) noexcept {
  if (!out.data) return;
  if (out.row_stride == 0 && out.dim_stride == 0) {
    if (sides.keys) *sum += kernels.sum_of_tile(d, keys.count * tile.queries);
    return;
  }
  if (!(out.dim_stride == 0 ? sides.queries : sides.keys)) return;
  auto* const bias = reinterpret_cast<E*>(tiles.query_row(out, tile.positions.start)) +
                     keys.start * out.dim_stride;
  kernels.add_bias_gradient(d, keys.count, tile.queries, tile.positions.count, bias, out.row_stride,
                            out.dim_stride);
}

// Calls undo(kernels, object, nth, number) for the score functions, the last one first. `number`
// counts the learned parameters of those before it. undo() adds to `lanes` [parameters][queries];
// their sums over the queries are added to `sums` [head_parameter_count]; null: not wanted.
template <class E, class Undo>
void undo_scores(const ForwardCall<E>& call, const WantedGradients& wanted, int64_t queries,
                 E* lanes, double* sums, const Undo& undo) noexcept {
  const std::span<const ScoreRef> scores = call.score_functions;
  int64_t number = wanted.head_parameter_count;
  for (size_t nth = scores.size(); nth-- > 0;) {
    const int64_t count = wanted.parameter_counts[nth];
    number -= count;
    std::fill_n(lanes, count * queries, E(0));
    undo(hooks_of(scores[nth], call.kernels.table), scores[nth].object, static_cast<int64_t>(nth),
         number);
    for (int64_t r = 0; sums && r < count; ++r)
      sums[number + r] += call.kernels.table.gradients.sum_of_tile(lanes + r * queries, queries);
  }
}

}  // namespace rapt
