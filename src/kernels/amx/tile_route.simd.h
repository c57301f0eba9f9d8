#pragma once
// A route by tile registers (kernel_table.h), for one way of storing numbers (tile_parts.simd.h).
#include "kernels/amx/tile_exclusion.simd.h"
#include "kernels/amx/tile_gradient_stage.simd.h"
#include "kernels/amx/tile_layers.simd.h"
#include "kernels/amx/tile_stage.simd.h"
#include "kernels/vector/storage.simd.h"
#include "rapt/variants.h"

namespace rapt::RAPT_ISA {
namespace {

static_assert(sizeof(TileShapes) <= sizeof(RouteKernels<float>::ThreadState));

void begin(RouteKernels<float>::ThreadState& before) noexcept {
  shape_tiles(reinterpret_cast<TileShapes&>(before));
}
void end(const RouteKernels<float>::ThreadState& before) noexcept {
  restore_tiles(reinterpret_cast<const TileShapes&>(before));
}

// Tiles of 32 queries alone. Scores and weights of wider ones would leave an L1 of 48 KiB.
constexpr int kTileVectors = kStep / F::kLanes;
template <class S>
constexpr ProductKernels<float> kTileProducts[kMaxVectors] = {
    {}, {tile_scores<S>, tile_output<S>}, {}, {}};

template <class S>
constexpr auto find_outside_of() -> decltype(&tile_find_outside<S>) {
  if constexpr (S::kParts == 1)
    return nullptr;
  else
    return tile_find_outside<S>;
}
template <class S>
constexpr auto take_outside_of() -> decltype(&tile_take_outside<S>) {
  if constexpr (S::kParts == 1)
    return nullptr;
  else
    return tile_take_outside<S>;
}

template <class S>
constexpr RouteKernels<float> make_route(const char* kernel,
                                         const NormalizerKernels<float>* normalizers) {
  return {.kernel = kernel,
          .step = kStep,
          .element_size = kElement<S>,
          .weight_size = kWeight<S>,
          .keys_in_place = false,
          .values_in_place = false,
          .products = kTileProducts<S>,
          .grain = kTileVectors,
          .long_vectors = kTileVectors,
          .normalizers = normalizers,
          .pack_queries = tile_pack_queries<S>,
          .pack_keys = tile_pack_keys<S>,
          .pack_values = tile_pack_values<S>,
          .pack_rows = tile_pack_pairs<S>,
          .round_weights = tile_round_weights<S>,
          .round_for_keys = tile_round_for_keys<S>,
          .output_of_bits = tile_output_of_bits<S>,
          .all_finite = tile_all_finite<S>,
          .key_gradients = {.add = tile_add_to_keys<S>, .add_of_bits = tile_add_to_keys_of_bits<S>},
          .find_outside = find_outside_of<S>(),
          .take_outside = take_outside_of<S>(),
          .stages = StageList<S, Normalizers>::all,
          .gradient_stages = GradientStageList<S, Normalizers>::all,
          .begin = begin,
          .end = end,
          .layers = &kTileLayers<S>};
}

}  // namespace
}  // namespace rapt::RAPT_ISA
