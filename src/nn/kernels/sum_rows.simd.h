#pragma once
// Stores sums of the computed type as elements of a storage type.
#include "kernels/vector/storage.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V, class S>
RAPT_NOINLINE void store_sums_as(const typename V::Element* from, int64_t count, bool adds,
                                 void* to) noexcept {
  auto* const out = static_cast<typename S::Stored*>(to);
  int64_t i = 0;
  for (; i + V::kLanes <= count; i += V::kLanes) {
    const V sum = V::load(from + i);
    S::save(out + i, adds ? add(S::load(out + i), sum) : sum);
  }
  if (i < count) {
    const int64_t n = count - i;
    const V sum = AsElement<V>::load_first(from + i, n);
    S::save_first(out + i, adds ? add(S::load_first(out + i, n), sum) : sum, n);
  }
}

}  // namespace
}  // namespace rapt::RAPT_ISA
