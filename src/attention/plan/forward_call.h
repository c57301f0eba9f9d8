#pragma once
// A forward call with everything that is known before its first task: what run_forward() and every
// pass over tiles read. The backward pass and tangents hold one for the scores they recompute.
#include "attention/call/captures.h"
#include "attention/plan/scratch_layout.h"

namespace rapt {

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
  const ScratchLayout& layout;
  std::byte* workspace;  // 64-byte aligned, layout.bytes_for(tiling.workers)
};

}  // namespace rapt
