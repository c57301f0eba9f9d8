// The instruction sets with tile registers: a set of vectors with the products of
// tile_products.simd.h. Compiled twice: with AVX-512 and the instructions of AMX (`amx`, on
// `avx512`), and with the same words in plain C++ (`amx_emulated`, on `plain16`). The route of bf16
// is in tile_bf16.cpp.
#include RAPT_ISA_HEADER
// The order matters: the vocabulary first.
#include "kernels/amx/tile_route.simd.h"

namespace rapt::RAPT_VECTORS {
IsaTables tables() noexcept;
}
namespace rapt::RAPT_BF16_TILES {
const RouteKernels<float>& route() noexcept;
}

namespace rapt::RAPT_ISA {
namespace {

constexpr RouteKernels<float> kFloat =
    make_route<FloatParts<AsElement<F>, 3, 3>>("tile registers, six products", nullptr);
constexpr RouteKernels<float> kFastFloat =
    make_route<FloatParts<AsElement<F>, 2, 2>>("tile registers, three products", nullptr);
// Rows have two parts: four products for scores, five with weights.
constexpr RouteKernels<float> kFloat16 =
    make_route<FloatParts<AsFloat16<F>, 2, 3>>("tile registers, four and five products", nullptr);
constexpr RouteKernels<float> kFastFloat16 =
    make_route<FloatParts<AsFloat16<F>, 2, 2>>("tile registers, three products", nullptr);

void tile_loop(int64_t iterations) noexcept {
  TileShapes before;
  shape_tiles(before);
  clear_sums();
  tile_zero<4>();
  tile_zero<5>();
  for (int64_t i = 0; i < iterations; ++i) {
    tile_multiply<0, 4, 5>();
    tile_multiply<1, 4, 5>();
    tile_multiply<2, 4, 5>();
    tile_multiply<3, 4, 5>();
  }
  restore_tiles(before);
}

KernelTable<float> with_tiles(KernelTable<float> table) noexcept {
  table.isa = RAPT_ISA_NAME;
  static const RouteKernels<float>* const routes[kStorageTypes] = {
      &kFloat, nullptr, &RAPT_BF16_TILES::route(), &kFloat16};
  static const RouteKernels<float>* const fast_routes[kStorageTypes] = {
      &kFastFloat, nullptr, &RAPT_BF16_TILES::route(), &kFastFloat16};
  table.tiles = routes, table.fast_tiles = fast_routes;
  table.tile_loop = tile_loop;
  return table;
}
KernelTable<double> named(KernelTable<double> table) noexcept {
  table.isa = RAPT_ISA_NAME;
  return table;
}

}  // namespace

IsaTables tables() noexcept {
  static const KernelTable<float> f32 = with_tiles(*RAPT_VECTORS::tables().f32);
  static const KernelTable<double> f64 = named(*RAPT_VECTORS::tables().f64);
  return {&f32, &f64};
}

}  // namespace rapt::RAPT_ISA
