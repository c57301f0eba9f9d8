#pragma once
// Runs of 32 bf16, the rows of tile registers, in plain C++ beside the vectors of simd/plain16.h:
// the specification of the words of avx512_runs.h, which give the same bits.
#include "kernels/inlining.h"
#include "kernels/simd/plain16.h"

namespace rapt::RAPT_ISA {
namespace {

struct Run {
  uint16_t v[32];

  template <class Function>
  static RAPT_INLINE Run each(Function f) {
    Run r;
    for (int i = 0; i < 32; ++i) r.v[i] = static_cast<uint16_t>(f(i));
    return r;
  }
};

RAPT_INLINE Run zero_run() { return {}; }
RAPT_WORD Run load_run(const void* p) {
  Run r;
  __builtin_memcpy(r.v, p, sizeof r.v);
  return r;
}
// The elements whose bit is set, 0 elsewhere; never reads others.
RAPT_WORD Run load_run_where(uint32_t elements, const void* p) {
  Run r = {};
  for (int i = 0; i < 32; ++i)
    if (elements >> i & 1) __builtin_memcpy(r.v + i, static_cast<const uint16_t*>(p) + i, 2);
  return r;
}
RAPT_WORD void store_run(void* p, Run run) { __builtin_memcpy(p, run.v, sizeof run.v); }

// The bits of a run as 16 lanes: element 2 i is the lower half of lane i.
RAPT_WORD Run run_of_lanes(F x) { return __builtin_bit_cast(Run, x.v); }
RAPT_WORD F lanes_of_run(Run run) {
  F x;
  __builtin_memcpy(x.v, run.v, sizeof x.v);
  return x;
}

// Elements 0 to 15 and 16 to 31.
RAPT_WORD F low_of(Run run) { return F::load_bf16(run.v); }
RAPT_WORD F high_of(Run run) { return F::load_bf16(run.v + 16); }
// Both vectors, rounded to nearest, ties to even; denormal numbers become 0.
RAPT_WORD Run round_to_run(F low, F high) {
  return Run::each([&](int i) {
    const float x = i < 16 ? low.v[i] : high.v[i - 16];
    const uint32_t bits = Format<float>::bits_of(x);
    return (bits & 0x7F800000) == 0 ? bits >> 31 << 15 : BFloat16::from(x).bits;
  });
}

// The order (permutation) in which `in_order` takes 16 elements of each run, from the `first` on.
struct RunOrder {
  int first;
};
RAPT_INLINE RunOrder interleaving(int first) { return {first}; }
RAPT_WORD Run in_order(Run even, RunOrder order, Run odd) {
  return Run::each([&](int i) { return (i % 2 ? odd : even).v[order.first + i / 2]; });
}
// The upper halves of the lanes of two vectors in turn.
RAPT_WORD Run in_turn(F even, F odd) {
  return Run::each(
      [&](int i) { return Format<float>::bits_of((i % 2 ? odd : even).v[i / 2]) >> 16; });
}

// The upper halves of the lanes, others 0.
RAPT_WORD F cut(F x) {
  using T = Format<float>;
  return F::each([&](int64_t i) { return T::number_of(T::bits_of(x.v[i]) & 0xFFFF0000); });
}
// Adds half a unit of the upper half, so that the upper half is x to nearest, ties away from 0. A
// carry turns some NaN into zero; the second word leaves every NaN as it is.
RAPT_WORD F add_half(F x) {
  using T = Format<float>;
  return F::each([&](int64_t i) { return T::number_of(T::bits_of(x.v[i]) + 0x8000); });
}
RAPT_WORD F add_half_unless_nan(F x) { return select(equal(x, x), add_half(x), x); }

// Is x zero, or `least` <= |x| <= `most`?
RAPT_WORD M zero_or_between(F x, float least, float most) {
  return where<float>([&](int64_t i) {
    const float size = __builtin_fabsf(x.v[i]);
    return size == 0 || (size >= least && size <= most);
  });
}
RAPT_WORD F only(M these, F x) { return select(these, x, F::splat(0)); }

// Every pair of elements (2 i, 2 i + 1) and these bits.
RAPT_WORD Run and_pairs(Run run, uint32_t pair) {
  return Run::each([&](int i) { return run.v[i] & pair >> (i % 2 * 16); });
}
// Are some elements Inf or NaN? Bits of which only 0 has a meaning: none.
RAPT_WORD uint32_t not_finite(Run run) {
  uint32_t some = 0;
  for (int i = 0; i < 32; ++i) some |= (run.v[i] & 0x7F80) == 0x7F80;
  return some;
}

}  // namespace
}  // namespace rapt::RAPT_ISA
