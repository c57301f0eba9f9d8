#pragma once
// The hooks of the scores and the normaliser of a call: those of the catalogue, compiled for the
// instruction set, or the caller's own, compiled with the program.
#include "kernels/kernel_table.h"
#include "rapt/attention.h"

namespace rapt {

template <class E>
const ScoreKernels<E>& hooks_of(const ScoreRef& score, const KernelTable<E>& table) noexcept {
  const ScoreKernels<E>* const custom = score.custom.template of<E>();
  return custom ? *custom : table.scores[score.index];
}

// `catalogue`: those of the table, or of the route.
template <class E>
const NormalizerKernels<E>& hooks_of(const NormalizerRef& normalizer,
                                     const NormalizerKernels<E>* catalogue) noexcept {
  const NormalizerKernels<E>* const custom = normalizer.custom.template of<E>();
  return custom ? *custom : catalogue[normalizer.index];
}

}  // namespace rapt
