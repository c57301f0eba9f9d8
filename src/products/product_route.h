#pragma once
// Chooses the route of a product: FMA, or, unless the call forbids it, an instruction that
// multiplies bf16 (tile registers, or the dot product of bf16_dot_route()), as attention does.
// Sizes play no part, so that a row has the same bits whatever rows are computed with it.
#include <type_traits>

#include "kernels/kernel_table.h"
#include "rapt/instruction_sets.h"
#include "rapt/precision.h"
#include "rapt/tensor.h"

namespace rapt {

// The route of two sides of this dtype; null: FMA. Throws as bf16_dot() does.
template <class E>
const RouteKernels<E>* product_route(DType dtype, Precision precision) {
  if constexpr (std::is_same_v<E, float>) {
    if (precision == Precision::fma) return nullptr;
    const KernelTable<float>& table = kernels<float>();
    const auto* const tiles = precision == Precision::fast ? table.fast_tiles : table.tiles;
    // RAPT_BF16 decides for bf16, before anything else.
    const bool decided = dtype == DType::bf16 && bf16_dot().forced;
    if (tiles && !decided) return tiles[static_cast<int>(dtype)];
    if (dtype == DType::bf16) return bf16_dot_route();
  }
  return nullptr;
}

// Calls visit(route) for every route that a product can take, null for FMA included.
template <class E, class Visit>
void for_each_route(const Visit& visit) {
  visit(static_cast<const RouteKernels<E>*>(nullptr));
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const Precision precision : {Precision::automatic, Precision::fast})
      if (const RouteKernels<E>* const route = product_route<E>(dtype, precision)) visit(route);
}

}  // namespace rapt
