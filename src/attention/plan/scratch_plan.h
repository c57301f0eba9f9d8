#pragma once
// The inputs of a scratch layout, and the planners of its memory. Each class that works in scratch
// has a struct of places with a function reserve(plan). forward_layout(),
// backward_layout() and tangent_layout() call those that a call needs.
#include <algorithm>

#include "attention/plan/tiling.h"
#include "base/scratch_planner.h"

namespace rapt {

// Head sizes are at most 2^32, a work unit has at most 512 queries and a block 128 keys, so no
// product of these overflows. Planners check the others.
template <class E>
struct ScratchPlan {
  const Problem& problem;
  const Kernels<E>& kernels;
  const Tiling& tiling;
  const int64_t mask_slots;     // BoundMasks::slots() of the call's masks
  const int64_t longest_query;  // of the sequences, padded
  // Of a work unit: its queries, its query tiles and the queries of a tile, each at most. Tiles of
  // second passes are long_vectors wide, also where units of group_vectors are narrower.
  const int64_t unit = std::min(
      std::max<int64_t>(tiling.unit_queries, tiling.long_vectors* tiling.lanes), longest_query);
  const int64_t tiles = tiling.cut(unit).tiles;
  const int64_t tile = std::min<int64_t>(unit, tiling.max_vectors* tiling.lanes);
  ScratchPlanner<Per::call> call = {};
  ScratchPlanner<Per::worker> worker = {};

  // Bytes of a row as the products read it, and of a weight as they read it.
  int64_t packed_bytes(int64_t dims) const noexcept {
    return packed_stride(dims, tiling.step) * kernels.route.element_size;
  }
  // The same of a query: the route of few queries has them as E, beside keys as they are stored.
  int64_t query_bytes(int64_t dims) const noexcept {
    return packed_stride(dims, tiling.step) *
           std::max<int64_t>(kernels.route.element_size, sizeof(E));
  }
  int64_t weight_bytes() const noexcept { return kernels.route.weight_size; }
  // Bytes of a row of the inputs.
  int64_t stored_bytes(int64_t dims) const noexcept { return dims * size_of(problem.dtype); }
};

}  // namespace rapt
