// The bf16 route of tile registers. It is compiled apart from those of f32 and f16
// (tile_routes.cpp), because its weights are rounded to bf16, so that a less exact 2^x suffices.
// The products take denormal weights for 0, so none is made.
#define RAPT_WEIGHTS_OF_16_BITS
#define RAPT_NORMAL_WEIGHTS
#include RAPT_ISA_HEADER
// The order matters: the vocabulary first.
#include "kernels/amx/tile_route.simd.h"
#include "kernels/vector/normalizers.simd.h"

namespace rapt::RAPT_ISA {
namespace {

constexpr RouteKernels<float> kBFloat16 =
    make_route<BFloat16Parts>("tile registers, one product", kNormalizers<F, Normalizers>);

}  // namespace

const RouteKernels<float>& route() noexcept { return kBFloat16; }

}  // namespace rapt::RAPT_ISA
