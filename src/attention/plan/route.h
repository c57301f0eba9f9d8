#pragma once
// Chooses the route of a call: fma, or, unless the call forbids it, an instruction that multiplies
// bf16 (tile registers, or the dot product of bf16_dot_route()). The forward and the backward pass
// both choose here, so that their scores are equal, unless d_output is wider than query and key.
#include "attention/call/problem.h"
#include "attention/plan/tiling.h"
#include "attention/plan/variant_kernels.h"
#include "rapt/instruction_sets.h"

namespace rapt {

// One tile product has 32 queries and 32 keys, and packs rows of both. Problems with fewer pairs
// should be faster by FMA (by count; not measured). Calls with `invariant` and packed sequences,
// which mix short and long ones, do not make this distinction.
inline constexpr int64_t kShortPairs = 32 * 32;

inline bool short_for_tiles(const Problem& p, const AttentionOptions& options) {
  const int64_t q_len = p.head_queries();
  return !options.invariant && !p.query_starts && q_len < kShortPairs && p.k_len < kShortPairs &&
         q_len * p.k_len < kShortPairs;
}

// Null: the instruction set has no tile registers, or FMA is faster. Distance tables are multiplied
// by FMA only. A sparse normaliser in f32 needs few scores of a row, and the prefilter that finds
// them works with FMA.
template <class E>
const RouteKernels<E>* tile_route(const Problem& p, const KernelTable<E>& table,
                                  const AttentionOptions& options) {
  const auto* const routes = options.precision == Precision::fast ? table.fast_tiles : table.tiles;
  const bool sparse = hooks_of(options.normalizer, table.normalizers).settle != nullptr;
  if (!routes || p.relative.any() || short_for_tiles(p, options) ||
      (sparse && p.dtype == DType::f32))
    return nullptr;
  return routes[static_cast<int>(p.dtype)];
}

// `same_dtype`: do all row tensors have the dtype of the inputs? d_output may be wider.
template <class E>
const RouteKernels<E>& route_of(const Problem& p, const KernelTable<E>& table,
                                const AttentionOptions& options, bool same_dtype = true) {
  // RAPT_BF16 decides for bf16, before anything else.
  const bool decided = p.dtype == DType::bf16 && bf16_dot().forced;
  if (options.precision != Precision::fma && same_dtype) {
    if (const RouteKernels<E>* const tiles = tile_route(p, table, options); tiles && !decided)
      return *tiles;
    if constexpr (sizeof(E) == sizeof(float))
      if (p.dtype == DType::bf16 && !p.relative.any())
        if (const RouteKernels<float>* const dot = bf16_dot_route()) return *dot;
  }
  return *table.fma[static_cast<int>(p.dtype)];
}

// The route of few queries (kernels/vector/few_queries.simd.h), in place of the fma route, whose
// bits it has; null: a sequence has more queries than it takes, or rows that it cannot read in
// place. With fewer keys, setting up its loops would take as long as they save.
inline constexpr int64_t kLeastKeysOfFew = 64;

template <class E>
const RouteKernels<E>* few_queries_route(const Problem& p, const KernelTable<E>& table,
                                         const NormalizerKernels<E>& normalizer) {
  // The workspace of a call on a cache must not depend on its lengths.
  const int64_t keys = p.pages.used() ? p.k_len : longest_sequence(p, &Sequence::k_len, p.k_len);
  const int64_t queries = longest_sequence(p, &Sequence::q_len, p.q_len);
  if (queries < 1 || queries > 1 << (kFewWidths - 1) || keys < kLeastKeysOfFew ||
      p.relative.any() || normalizer.settle || p.key.dim_stride != 1 || p.value.dim_stride != 1)
    return nullptr;
  int width = 0;
  while (1 << width < queries) ++width;
  return table.few_queries[static_cast<int>(p.dtype)][width];
}

}  // namespace rapt
