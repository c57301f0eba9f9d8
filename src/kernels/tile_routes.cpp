// The instruction sets with tile registers: AVX-512 with the products of tile_products.simd.h.
// Compiled twice, with the instructions of AMX (`amx`) and with the same in plain C++
// (`amx_emulated`), which shares every line but the words of simd/tiles.h.
#define RAPT_WEIGHTS_OF_16_BITS  // of bf16: 2^x need not be better than they are
#include "kernels/simd/avx512.h"
// The order matters: the vocabulary first.
#include RAPT_TILE_WORDS
#include "kernels/normalizers.simd.h"
#include "kernels/storage.simd.h"
#include "kernels/tile_exclusion.simd.h"
#include "rapt/variants.h"

namespace rapt::isa_avx512 {
IsaTables tables() noexcept;
}

namespace rapt::RAPT_ISA {
namespace {

static_assert(sizeof(TileShapes) <= sizeof(RouteKernels<float>::ThreadState));

void begin(RouteKernels<float>::ThreadState& before) noexcept {
  shape_tiles(reinterpret_cast<TileShapes&>(before));
}
void end(const RouteKernels<float>::ThreadState& before) noexcept {
  restore_tiles(reinterpret_cast<const TileShapes&>(before));
}

// Tiles of 32 and 64 queries; none of 16 or 48.
template <class S>
constexpr ProductKernels<float> kTileProducts[kMaxVectors] = {
    {}, {tile_scores<S, 1>, tile_output<S, 1>}, {}, {tile_scores<S, 2>, tile_output<S, 2>}};

template <class S>
constexpr auto find_outside_of() -> decltype(&tile_find_outside<S>) {
  if constexpr (S::kSlots == 1)
    return nullptr;
  else
    return tile_find_outside<S>;
}
template <class S>
constexpr auto take_outside_of() -> decltype(&tile_take_outside<S>) {
  if constexpr (S::kSlots == 1)
    return nullptr;
  else
    return tile_take_outside<S>;
}

template <class S>
constexpr RouteKernels<float> make_route(const char* kernel,
                                         const NormalizerKernels<float>* normalizers) {
  return {kernel,
          kStep,
          kElement<S>,
          false,
          false,
          kTileProducts<S>,
          kStep / F::kLanes,
          kMaxVectors,
          normalizers,
          tile_pack_queries<S>,
          tile_pack_keys<S>,
          tile_pack_values<S>,
          tile_pack_pairs<S>,
          tile_round_weights<S>,
          tile_round_for_keys<S>,
          tile_output_of_bits<S>,
          tile_all_finite<S>,
          {tile_add_to_keys<S>, tile_add_to_keys_of_bits<S>},
          find_outside_of<S>(),
          take_outside_of<S>(),
          begin,
          end};
}

constexpr RouteKernels<float> kBFloat16 =
    make_route<BFloat16Parts>("tile registers, one product", kNormalizers<F, Normalizers>);
constexpr RouteKernels<float> kFloat =
    make_route<FloatParts<AsElement<F>, 3, 3>>("tile registers, six products", nullptr);
constexpr RouteKernels<float> kFastFloat =
    make_route<FloatParts<AsElement<F>, 2, 2>>("tile registers, three products", nullptr);
// Rows have two parts: four products for scores, five with weights.
constexpr RouteKernels<float> kFloat16 =
    make_route<FloatParts<AsFloat16<F>, 2, 3>>("tile registers, four and five products", nullptr);
constexpr RouteKernels<float> kFastFloat16 =
    make_route<FloatParts<AsFloat16<F>, 2, 2>>("tile registers, three products", nullptr);

constexpr const RouteKernels<float>* kRoutes[kStorageTypes] = {&kFloat, nullptr, &kBFloat16,
                                                               &kFloat16};
constexpr const RouteKernels<float>* kFastRoutes[kStorageTypes] = {&kFastFloat, nullptr, &kBFloat16,
                                                                   &kFastFloat16};

KernelTable<float> with_tiles(KernelTable<float> table) noexcept {
  table.isa = RAPT_ISA_NAME;
  table.tiles = kRoutes, table.fast_tiles = kFastRoutes;
  return table;
}
KernelTable<double> named(KernelTable<double> table) noexcept {
  table.isa = RAPT_ISA_NAME;
  return table;
}

}  // namespace

IsaTables tables() noexcept {
  static const KernelTable<float> f32 = with_tiles(*isa_avx512::tables().f32);
  static const KernelTable<double> f64 = named(*isa_avx512::tables().f64);
  return {&f32, &f64};
}

}  // namespace rapt::RAPT_ISA
