#pragma once
// Where the arrays of a backward call lie in its workspace: those of the call, of each component at
// work, and of each worker.
#include "attention/backward/backward_plan.h"
#include "attention/plan/scratch_layout.h"

namespace rapt {

// Scratch of PipelinedGradients: two buffers of each array that its call needs.
struct GradientPipelineScratch {
  size_t weights_of_keys[2], d_scores_of_keys[2];  // [tiles][block_keys][queries], rounded
  size_t d_scores_of_query[2];                     // [block_keys][queries], rounded
  size_t bits[2];                                  // [tiles][block_keys] uint64
};

// Byte offsets as in ScratchLayout; 0 for what a call does not need.
struct BackwardLayout {
  // Arrays of the call.
  size_t heads;            // [component_heads] ComponentHead
  size_t head_scratch;     // [component_heads] int64
  size_t cell_starts;      // [sequences + 1] int64: cells of a head before each sequence
  size_t deltas;           // [heads][delta rows][q_len] E, of two passes
  size_t scale_sums;       // [heads][cells] double
  size_t score_sums;       // [heads][cells][parameters] double
  size_t normalizer_sums;  // [heads][cells][normaliser's parameters] double
  size_t query_bias_sums;  // [heads][cells][2][head_dim] double: d_query from keys, from key_rows
  size_t bias_sums;        // [heads][cells] double: of a bias with one number per head
  size_t slots;            // of components at work, slot_bytes each
  // Arrays of a component at work, in one pass. One matrix of sums per slot of the plan.
  size_t query_t;            // tiles [head_dim][queries] of the route's elements
  size_t transformed_query;  // [queries][head_dim] of the inputs' dtype, if rows are transformed
  size_t position_t;         // as query_t, for products with key_rows, if biases are added
  size_t position_query;     // as transformed_query, for position_t
  size_t prefilter_queries;  // tiles of rounded queries (prefilter.h)
  size_t d_output_t;         // tiles [value_dim][queries] of the route's elements
  size_t d_query_t;          // [slots] tiles [head_dim][queries] E
  size_t kept_pairs;         // [queries][kKeptPairs] SparsePair: of sparse normalisers, in one pass
  size_t kept_counts;        // [queries] int64, one used per tile: its number of kept pairs
  size_t d_query_pairs;      // [slots][queries][head_dim] E: sums of pairs, of sparse normalisers
  size_t query_dots;     // [slots][queries] E: d_query . query, where biases are added to queries
  size_t statistic;      // [queries] E
  size_t delta;          // tiles [delta rows][queries] E
  size_t d_key;          // [slots][keys][head_dim] E, if the result is narrower
  size_t d_value;        // [slots][keys][value_dim] E, if the result is narrower
  size_t key_windows;    // [parts][window_rows][head_dim] E
  size_t query_windows;  // the same
  size_t value_windows;  // [parts][window_rows][value_dim] E
  size_t slot_bytes;
  // Arrays of a worker. In two passes a worker also has the arrays above, for a work unit and a
  // chunk.
  size_t tiles;      // [tiles] QueryTile
  size_t weights;    // [tiles][block_keys][queries] E
  size_t d_weights;  // the same
  size_t bits;       // [tiles][block_keys] uint64: which queries may attend
  size_t before;     // [score functions + 1][block_keys][queries] E: ScoreTiles::compute_scores()
  size_t parameter_sums;   // [parameters of a score function][queries] E
  size_t other_weights;    // [block_keys][queries] E: the caller's d_weights
  size_t slope_sums;       // [2][4][queries] E: sums for the delta of a sparse normaliser
  size_t pairs;            // [block_keys * queries] SparsePair: of sparse normalisers
  size_t cut_scores;       // [queries][stride] E: lists of sparse normalisers with a cut
  size_t cut_keys;         // the same, int32
  size_t cut_counts;       // [2][queries] int32
  int64_t cut_capacity;    // of a list; 0: none
  size_t rows_t;           // [largest head size][queries] E: a tile of output or query
  size_t d_output_rows_t;  // the same of d_output, for delta, if the route rounds
  size_t key;              // [pass_keys][head_dim] of the route's elements, if packed
  size_t value;            // [pass_keys][value_dim], the same of values
  size_t dense_d_key;      // [chunk][head_dim] E: sums of d_key while a cell is at work, if the
                           // result's rows are not dense
  size_t dense_d_value;    // [chunk][value_dim] E, the same of d_value
  size_t query_rows;       // [unit queries][head_dim] of the route's elements, if packed
  size_t position_rows;    // the same for products with key_rows, if biases are added
  size_t d_output_rows;    // [unit queries][value_dim], the same of d_output
  size_t content_sums;     // [head_dim][unit queries] E: d_query of a walk, from keys alone
  size_t position_sums;    // the same, from key_rows
  // For a route that rounds:
  size_t summed_key;        // [pass_keys][head_dim] of its elements: keys as d_query sums read them
  size_t rounded_weights;   // [tiles][block_keys][queries] of its weights
  size_t rounded_d_scores;  // the same
  size_t d_scores_of_query;  // [block_keys][queries] of its weights: of a tile, for d_query
  GradientPipelineScratch pipeline;

  // The scratch of ScoreTiles. Its `workers` and `worker_bytes` hold for this layout, too.
  ScratchLayout forward;
  size_t bytes = 0;  // of everything
};

template <class E>
BackwardLayout backward_layout(const Problem& problem, const WantedGradients& wanted,
                               const BackwardPlan& plan, const AttentionOptions& options,
                               const Kernels<E>& kernels, int64_t mask_slots);

}  // namespace rapt
