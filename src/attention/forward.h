#pragma once
// The conductor of the forward pass: the loop over heads, tiles of queries and blocks of keys. It
// is compiled once; all arithmetic is behind the kernel table.
#include "attention/problem.h"
#include "attention/tiling.h"

namespace rapt {

// The extra output and candidates wait for normalisers that need them; until the catalogue has some,
// tests/contracts uses them.

template <class E>
struct ForwardCall {
  const Problem& problem;
  const KernelTable<E>& table;
  const NormalizerKernels<E>& normalizer;
  const void* normalizer_object;
  std::span<const ScoreRef> scores;
  std::span<const Mask* const> masks;
  const std::optional<WeightsRequest>& weights_request;
  Outputs outputs;
  Operand extra;  // as the output; data null: none
  Tiling tiling;
  ScratchLayout layout;
  std::byte* workspace;  // 64-byte aligned, layout.bytes per worker
};

// Runs the call on the context's executor. Throws Error(cancelled).
template <class E>
void run_forward(const ForwardCall<E>& call, const Context& context);

}  // namespace rapt
