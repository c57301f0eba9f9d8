#pragma once
// Which instructions multiply: FMA, or, where a call leaves that to the library, those that
// multiply bf16: tile registers, or dot products (bf16_dot_route()). Both passes ask here, so that
// their scores are the same, but where d_output is wider than query and key.
#include "attention/call/problem.h"
#include "attention/plan/variant_kernels.h"
#include "rapt/instruction_sets.h"

namespace rapt {

// Tiles take 32 queries and 32 keys at once, and pack rows of both: a problem of fewer pairs than
// one product has should be faster without (by count; not measured). Not in calls that ask for one
// class, nor in packed sequences, where short ones stand beside long ones.
inline constexpr int64_t kShortPairs = 32 * 32;

inline bool short_for_tiles(const Problem& p, const AttentionOptions& options) {
  return !options.invariant && !p.query_starts && p.q_len < kShortPairs && p.k_len < kShortPairs &&
         p.q_len * p.k_len < kShortPairs;
}

// Null: the set has no tile registers, or another way is faster. Rows for distances are multiplied
// by FMA alone; a sparse normaliser in f32 needs few scores of a row, and a prefilter for these is
// made for FMA.
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

// `same_dtype`: are all tensors of rows of the inputs' dtype? Those of d_output may be wider.
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

}  // namespace rapt
