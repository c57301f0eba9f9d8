#pragma once
// Lays out the workspace of a forward call: which arrays it needs and where each begins.
#include "attention/plan/scratch_layout.h"

namespace rapt {

// `mask_slots`: BoundMasks::slots() of the call's masks.
template <class E>
ScratchLayout layout_of(const Problem& problem, const Captures& captures, const Tiling& tiling,
                        const Kernels<E>& kernels, int64_t mask_slots);

}  // namespace rapt
