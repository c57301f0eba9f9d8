#pragma once
// Where the arrays of a forward call lie in its workspace: a block of places for each class that
// works in it, and those of the passes.
#include "attention/forward/chunks.h"
#include "attention/forward/kept_scores.h"
#include "attention/forward/pipelined_tiles.h"
#include "attention/forward/sparse_rows.h"
#include "attention/forward/top_scores.h"
#include "base/rare.h"

namespace rapt {

template <class E>
struct ForwardLayout {
  TilePlaces<E> score_tiles;
  ChunkPlaces<E> chunks;
  PipelinePlaces<E> pipeline;
  SparsePlaces<E> sparse;
  TopPlaces<E> top;
  KeptPlaces<E> kept;
  // forward.cpp
  CallPlace<int64_t> unit_starts;  // [sequences + 1]: units of a head before each sequence
  Place<QueryTile<E>> tiles;       // [tiles]
  Place<E> output_t;               // tiles [value_dim][queries]
  Place<std::byte> rounded;        // [block_keys][tile queries] of the route's weights
  Place<E> entropy;                // [unit queries]
  // Second passes: the normaliser's state (saved_state.h), received_pass.cpp, map_pass.cpp
  CallPlace<E> saved_state;         // [heads][state_rows][q_len]
  CallPlace<int64_t> block_starts;  // [sequences + 1]: key blocks before each sequence
  Place<E> sums;         // [block_keys][lanes]: attention received by the keys of a block
  Place<double> totals;  // [block_keys]: the same, of many tiles
  Place<double> cells;   // [map rows of a task][columns]

  size_t bytes = 0;  // of the workspace

  void reserve_units(ScratchPlan<E>& plan, const Captures& captures) {
    const Problem& p = plan.problem;
    if (rare(p.query_starts != nullptr)) plan.call.place(unit_starts, {p.sequences + 1});
    plan.worker.place(tiles, {plan.tiles});
    plan.worker.place(output_t, {plan.unit, p.value_dim});
    if (rare(plan.kernels.route.rounds()))
      plan.worker.place(rounded, {plan.tiling.block_keys, plan.tile * plan.weight_bytes()});
    if (rare(captures.entropy)) plan.worker.place(entropy, {plan.unit});
  }

  void reserve_second_passes(ScratchPlan<E>& plan, const Captures& captures) {
    const Problem& p = plan.problem;
    const Tiling& t = plan.tiling;
    plan.call.place_if(p.query_starts && captures.received, block_starts, {p.sequences + 1});
    if (!captures.second_pass()) return;
    plan.call.place(saved_state, {p.heads, plan.kernels.normalizer.state_rows, p.q_len});
    if (captures.received) {
      plan.worker.place(sums, {t.block_keys, t.lanes});
      plan.worker.place(totals, {t.block_keys});
    }
    if (captures.map.wanted)
      plan.worker.place(cells, {map_rows_per_task(p, captures.map, t), captures.map.columns});
  }
};

// Throws Error(overflow).
template <class E>
ForwardLayout<E> forward_layout(const CheckedCall& call, const Captures& captures,
                                const Tiling& tiling, const Kernels<E>& kernels) {
  const Problem& p = call.problem;
  const int64_t queries = tiling.padded(longest_sequence(p, &Sequence::q_len, p.q_len));
  const int64_t keys = longest_sequence(p, &Sequence::k_len, p.k_len);
  ScratchPlan<E> plan{p, kernels, tiling, BoundMasks::slots(call.options.masks), queries};
  ForwardLayout<E> layout;
  layout.reserve_units(plan, captures);
  layout.score_tiles.reserve(plan);
  layout.score_tiles.reserve_walk(plan);
  layout.chunks.reserve(plan, captures.entropy);
  layout.pipeline.reserve(plan);
  if (rare(kernels.normalizer.settle != nullptr)) layout.sparse.reserve(plan, keys);
  if (rare(captures.top_k > 0)) layout.top.reserve(plan, captures.top_k, keys);
  if (rare(captures.kept)) layout.kept.reserve(plan, captures);
  layout.reserve_second_passes(plan, captures);
  layout.score_tiles.workers = plan.call.repeat(plan.worker, tiling.workers);
  layout.bytes = plan.call.total();
  return layout;
}

}  // namespace rapt
