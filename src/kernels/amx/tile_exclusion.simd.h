#pragma once
// Tile products where a row may not be finite: pairs whose bit is clear contribute nothing,
// although 0 * NaN is NaN. All other results have the bits of tile_products.simd.h.
//
// There is one product per query (for sums over queries, per key). It uses a copy of the other
// operand in which masked rows are 0, and keeps one column (row) of the result. Slow.
#include "kernels/amx/tile_products.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// The keys, of 32 from `bits` on, that a query attends to.
RAPT_INLINE uint32_t keys_seen(const uint64_t* bits, int64_t keys, int64_t query) {
  uint32_t seen = 0;
  for (int64_t j = 0; j < keys && j < kStep; ++j)
    seen |= static_cast<uint32_t>(bits[j] >> query & 1) << j;
  return seen;
}

template <class S>
RAPT_NOINLINE void tile_output_of_bits(const void* weights, const uint64_t* bits, const void* value,
                                       int64_t value_stride, int64_t keys, int64_t value_dim,
                                       const float* rescale, int64_t /* 32 queries */,
                                       float* output_t) noexcept {
  const auto* const columns = static_cast<const char*>(weights);
  const auto* const rows = static_cast<const char*>(value);
  alignas(64) char some[kRowPanels<S>];
  alignas(64) float sums[kStep * kStep];
  for (int64_t d = 0; d < value_dim; d += kStep)
    for (int64_t q = 0; q < kStep; ++q) {
      clear_sums();
      for (int64_t j = 0; j < keys; j += kStep) {
        const uint32_t seen = keys_seen(bits + j, keys - j, q);
        const char* const panel = rows + j * value_stride * kElement<S> + d / kStep * kRowPanels<S>;
        for (int64_t at = 0; at < kRowPanels<S>; at += kTileRow)
          store_run(some + at, load_run_where(seen, panel + at));
        add_weighted_rows<S, Load::near>(some, columns + j / kStep * kWeightPanels<S>, Keep{});
      }
      StoreAndClear(sums).store_all();
      for (int64_t r = 0; r < kStep && d + r < value_dim; ++r) {
        float& out = output_t[(d + r) * kStep + q];
        const float sum = sums[r * kStep + q] / S::kWeightScale;
        out = rescale ? __builtin_fmaf(rescale[q], out, sum) : out + sum;
      }
    }
}

// 16 pairs of queries; queries without the key are 0.
RAPT_INLINE void keep_queries(uint64_t seen, const char* tile, char* some) {
  for (int i = 0; i < 16; ++i) {
    const uint32_t halves =
        (seen >> i & 1 ? 0xFFFFu : 0) | (seen >> (i + 16) & 1 ? 0xFFFF0000u : 0);
    store_run(some + i * kTileRow, and_pairs(load_run(tile + i * kTileRow), halves));
  }
}

template <class S>
RAPT_NOINLINE void tile_add_to_keys_of_bits(const GradientSpan<float>* spans, int64_t span_count,
                                            int64_t keys, int64_t dims, float* gradient,
                                            int64_t stride) noexcept {
  alignas(64) char some[kRowPanels<S>];
  alignas(64) float sums[kStep * kStep];
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t d = 0; d < dims; d += kStep) {
      clear_sums();
      for (int64_t s = 0; s < span_count; ++s) {
        const SpanPanels<S> at(spans[s], j, d);
        const uint64_t seen = spans[s].bits ? spans[s].bits[j] : ~uint64_t{0};
        for (int64_t i = 0; i < at.count; ++i) {
          const char* const panel = at.rows + i * at.rows_step;
          for (int64_t tile = 0; tile < kRowPanels<S>; tile += kTile)
            keep_queries(seen >> (kStep * i), panel + tile, some + tile);
          add_weights_by_rows<S>(at.weights + i * kWeightPanels<S>, some, Keep{});
        }
      }
      StoreAndClear(sums).store_all();
      add_to_rows<S>(sums + j % kStep * kStep, 1, dims - d, gradient + j * stride + d, stride);
    }
}

}  // namespace
}  // namespace rapt::RAPT_ISA
