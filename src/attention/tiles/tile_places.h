#pragma once
// Scratch of ScoreTiles and of the classes that it uses.
#include "attention/relative/distance_products.h"
#include "attention/tiles/bound_masks.h"
#include "attention/tiles/group_lanes.h"
#include "attention/tiles/key_blocks.h"
#include "base/rare.h"

namespace rapt {

template <class E>
struct TilePlaces {
  Place<E> rows;           // [kTileRows][max_vectors * lanes]: TileRow
  Place<uint64_t> kept;    // [block_keys], for dropout
  Place<BoundMask> masks;  // [slots of the masks]
  RowTransformPlaces<E> row_transform;
  RelativePlaces<E> relative;
  ExactPlaces<E> exact;
  PrefilterPlaces<E> prefilter;
  // Of passes that pack queries by begin_tile() and get scores from for_each_block():
  Place<std::byte> query_t;     // tiles [head_dim][queries] of the route's elements
  Place<std::byte> position_t;  // the same for products with key_rows, where query biases differ
  Place<std::byte> transformed_query;  // [unit queries][head_dim] of the inputs' dtype
  Place<E> state;                      // tiles [state_rows][queries]
  Place<E> scores;                     // [block_keys][tile queries], and a vector to read beyond
  Place<uint64_t> bits;                // [block_keys]
  KeyBlockPlaces blocks;
  GroupPlaces<E> group;

  RepeatedMemory workers;

  // Inlined, as reserve_walk() is, so that the planner stays in registers.
  [[gnu::always_inline]] void reserve(ScratchPlan<E>& plan) {
    const Tiling& t = plan.tiling;
    plan.worker.place(rows, {kTileRows, t.max_vectors * t.lanes});
    if (rare(plan.problem.drop_below > 0)) plan.worker.place(kept, {t.block_keys});
    plan.worker.place_if(plan.mask_slots > 0, masks, {plan.mask_slots});
    row_transform.reserve(plan.problem, plan.kernels.table, plan.call, plan.worker);
    relative.reserve(plan);
    exact.reserve(plan);
    prefilter.reserve(plan);
  }

  // To be called, too, for begin_tile() and for_each_block().
  [[gnu::always_inline]] void reserve_walk(ScratchPlan<E>& plan) {
    const Problem& p = plan.problem;
    plan.worker.place(query_t, {plan.unit, plan.query_bytes(p.head_dim)});
    if (rare(p.rows.adds_biases))
      plan.worker.place(position_t, {plan.unit, plan.query_bytes(p.head_dim)});
    plan.worker.place_if(p.rows.any(), transformed_query,
                         {plan.unit, plan.stored_bytes(p.head_dim)});
    plan.worker.place(state, {plan.unit, plan.kernels.normalizer.state_rows});
    plan.worker.place(scores, {plan.tiling.block_keys * plan.tile + plan.tiling.lanes});
    plan.worker.place(bits, {plan.tiling.block_keys});
    group.reserve(plan);
    blocks.reserve(plan);
  }
};

}  // namespace rapt
