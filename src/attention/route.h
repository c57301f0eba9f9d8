#pragma once
// Which instructions multiply: FMA, or, where a call leaves that to the library, those that
// multiply bf16 (bf16_dot_route()). Both passes ask here, so that their scores are the
// same, but where d_output is wider than query and key, which those of bf16 do not multiply.
#include "attention/problem.h"
#include "kernels/kernel_table.h"

namespace rapt {

inline const RouteKernels<float>& route_of(const Problem& p, const KernelTable<float>& table,
                                           Precision precision) {
  if (p.dtype == DType::bf16 && precision == Precision::automatic && !p.relative.any())
    if (const RouteKernels<float>* dot = bf16_dot_route()) return *dot;
  return *table.fma[static_cast<int>(p.dtype)];
}
inline const RouteKernels<double>& route_of(const Problem& p, const KernelTable<double>& table,
                                            Precision) {
  return *table.fma[static_cast<int>(p.dtype)];
}

}  // namespace rapt
