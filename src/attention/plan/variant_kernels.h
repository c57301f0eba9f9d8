#pragma once
// The kernels of a call, and the hooks of its score functions and its normaliser: the catalogue's,
// compiled per instruction set, or the caller's own, compiled with the program.
#include <string>

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

// Throws Error(unsupported) if a row has more keys than the list of a sparse normaliser counts.
template <class E>
void check_list(const NormalizerRef& normalizer, const NormalizerKernels<E>& hooks, int64_t k_len) {
  constexpr int64_t kMostKeys = (int64_t{1} << 31) - 1;  // in 32 bits
  if (hooks.settle && k_len > kMostKeys)
    throw Error(ErrorCode::unsupported,
                std::string("normalizer ") + normalizer.declaration->name + " with " +
                    std::to_string(k_len) + " keys; at most 2^31 - 1",
                "normalizer");
}

}  // namespace rapt
