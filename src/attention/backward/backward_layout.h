#pragma once
// Where the arrays of a backward call lie in its workspace: a block of places for each class that
// works in it, and those of the whole call.
#include "attention/backward/backward_worker.h"

namespace rapt {

// Whether the bias has one number per head.
inline bool has_bias_number(const TensorView& bias) {
  const auto length = [&](int from_end) {
    const int at = bias.rank - from_end;
    return at < 0 ? 1 : bias.shape[at];
  };
  return length(1) == 1 && length(2) == 1;
}

template <class E>
struct BackwardLayout {
  TilePlaces<E> score_tiles;
  QueryPlaces<E> queries;
  SumPlaces<E> sums;
  GradientTilePlaces<E> tiles;
  GradientKeyPlaces keys;
  GradientRowPlaces rows;
  QuerySumPlaces<E> query_sums;
  RowDeltaPlaces<E> row_deltas;
  SparsePairPlaces<E> sparse;
  // backward.cpp
  CallPlace<ComponentHead> heads;     // [component_heads], in the order of sums
  CallPlace<int64_t> head_scratch;    // [component_heads]
  CallPlace<int64_t> cell_starts;     // [sequences + 1]: cells of a head before each
  CallPlace<E> deltas;                // [heads][delta rows][q_len], of two passes
  CallPlace<double> scale_sums;       // [heads][cells]
  CallPlace<double> score_sums;       // [heads][cells][parameters]
  CallPlace<double> normalizer_sums;  // [heads][cells][normaliser's parameters]
  CallPlace<double> query_bias_sums;  // [heads][cells][2 head_dim]: keys, key_rows
  CallPlace<double> bias_sums;        // [heads][cells]: of a bias with a number per head

  RepeatedMemory components;  // in the workspace; in two passes, in a worker's scratch
  size_t bytes = 0;           // of the workspace

  // Arrays of the whole call: the order of heads, and sums that are added up at the end.
  void reserve_call(GradientScratch<E>& scratch) {
    const Problem& p = scratch.problem;
    const WantedGradients& wanted = scratch.wanted;
    auto& call = scratch.call;
    call.place(heads, {scratch.plan.component_heads});
    call.place(head_scratch, {scratch.plan.component_heads});
    if (p.query_starts) call.place(cell_starts, {p.sequences + 1});
    if (wanted.two_passes)
      call.place(deltas, {p.heads, scratch.kernels.normalizer.delta_rows, p.q_len});
    const auto place_sums = [&](bool needed, CallPlace<double>& sums_of_cells, int64_t count) {
      call.place_if(needed, sums_of_cells, {p.heads, scratch.plan.cells_per_head, count});
    };
    place_sums(wanted.scale, scale_sums, 1);
    place_sums(wanted.score_parameters, score_sums, wanted.head_parameter_count);
    place_sums(wanted.normalizer_parameters, normalizer_sums,
               wanted.normalizer_head_parameter_count);
    place_sums(wanted.query_biases(), query_bias_sums, 2 * p.head_dim);
    place_sums(wanted.bias && has_bias_number(scratch.options.bias), bias_sums, 1);
  }
};

// Throws Error(overflow).
template <class E>
BackwardLayout<E> backward_layout(const CheckedCall& call, const WantedGradients& wanted,
                                  const BackwardPlan& plan, const Kernels<E>& kernels) {
  GradientScratch<E> scratch = gradient_scratch(call, wanted, plan, kernels);
  BackwardLayout<E> layout;
  layout.reserve_call(scratch);
  layout.score_tiles.reserve(scratch);
  layout.queries.reserve(scratch);
  layout.sums.reserve(scratch);
  layout.tiles.reserve(scratch);
  layout.keys.reserve(scratch);
  layout.rows.reserve(scratch);
  layout.query_sums.reserve(scratch);
  layout.row_deltas.reserve(scratch);
  layout.sparse.reserve(scratch);
  layout.components =
      wanted.two_passes
          ? scratch.worker.repeat(scratch.component, 1)
          : scratch.call.repeat(scratch.component, plan.workers_share_component ? 1 : plan.workers);
  layout.score_tiles.workers = scratch.call.repeat(scratch.worker, plan.workers);
  layout.bytes = scratch.call.total();
  return layout;
}

}  // namespace rapt
