#pragma once
// The kernels of a call (chosen by prepare.h), and the hooks of its score functions and its
// normaliser: the catalogue's, compiled per instruction set, or the caller's own, compiled with the
// program.
#include "kernels/kernel_table.h"
#include "kernels/prefilter/prefilter.h"
#include "rapt/attention.h"

namespace rapt {

// The kernels of a call.
template <class E>
struct Kernels {
  const KernelTable<E>& table;
  const RouteKernels<E>& route;
  const NormalizerKernels<E>& normalizer;
  bool natural_units = false;                   // scores have no log2 units (rapt/tile.h)
  const PrefilterKernels* prefilter = nullptr;  // null: all scores are computed
  // The stages of the AMX pipeline; null: products and vector work run one after the other.
  Stage<E> stage = nullptr;                   // of the forward pass
  GradientStage<E> gradient_stage = nullptr;  // of the backward pass
};

template <class E>
const ScoreKernels<E>& hooks_of(const ScoreRef& score, const KernelTable<E>& table) noexcept {
  const ScoreKernels<E>* const custom = score.custom.template of<E>();
  return custom ? *custom : table.scores[score.index];
}

// `catalogue`: the hooks of the kernel table, or of the route.
template <class E>
const NormalizerKernels<E>& hooks_of(const NormalizerRef& normalizer,
                                     const NormalizerKernels<E>* catalogue) noexcept {
  const NormalizerKernels<E>* const custom = normalizer.custom.template of<E>();
  return custom ? *custom : catalogue[normalizer.index];
}

}  // namespace rapt
