#pragma once
// A forward call with everything that is known before its first task: what run_forward() and every
// pass over tiles read. The backward pass and tangents hold one for the scores they recompute.
#include "attention/call/captures.h"
#include "attention/call/checked_call.h"
#include "attention/plan/scratch_plan.h"

namespace rapt {

template <class E>
struct TilePlaces;  // of ScoreTiles (tiles/tile_places.h)

template <class E>
class ForwardCall {
  Operand transformed_key_;  // set if the call transforms keys

 public:
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
  const Operand& key;    // the keys to multiply: the caller's, or transformed in the workspace

  ForwardCall(const CheckedCall& call, const Kernels<E>& kernels_of_call,
              const Captures& captures_of_call, const Outputs& outputs_of_call,
              const Tiling& tiling_of_call, const TilePlaces<E>& layout_of_call,
              std::byte* aligned_workspace) noexcept
      : problem(call.problem),
        kernels(kernels_of_call),
        normalizer_object(call.options.normalizer.object),
        score_functions(call.options.scores),
        masks(call.options.masks),
        captures(captures_of_call),
        outputs(outputs_of_call),
        tiling(tiling_of_call),
        layout(layout_of_call),
        workspace(aligned_workspace),
        key(problem.rows.transforms_key ? transformed_key_ : problem.key) {
    if (!problem.rows.transforms_key) return;
    transformed_key_ = problem.key;
    transformed_key_.data = layout.row_transform.transformed_key.in(workspace);
  }
  ForwardCall(const ForwardCall&) = delete;  // `key` may refer to a member
  ForwardCall& operator=(const ForwardCall&) = delete;

  // An array of the call, from a row on.
  template <class T>
  T* at(const CallPlace<T>& place, int64_t row = 0) const noexcept {
    return place.in(workspace, row);
  }
};

}  // namespace rapt
