#pragma once
// A forward call with everything that is known before its first task: what run_forward() and every
// pass over tiles read. The backward pass and tangents hold one for the scores they recompute.
#include "attention/call/captures.h"
#include "attention/plan/scratch_plan.h"

namespace rapt {

template <class E>
struct TilePlaces;  // of ScoreTiles (tiles/tile_places.h)

template <class E>
struct ForwardCall {
  const Problem& problem;
  const Kernels<E>& kernels;
  const void* normalizer_object;
  std::span<const ScoreRef> score_functions;
  std::span<const Mask* const> masks;
  const Captures& captures;
  const Outputs& outputs;
  const Tiling& tiling;
  const TilePlaces<E>& layout;
  std::byte* workspace;  // 64-byte aligned

  // An array of the call, from a row on.
  template <class T>
  T* at(const CallPlace<T>& place, int64_t row = 0) const noexcept {
    return place.in(workspace, row);
  }
};

}  // namespace rapt
