#pragma once
// Represents numbers as sums of bf16 parts, most significant part first.
//
//   bf16   itself
//   f32    three parts of 8 bits each, exactly; two parts for Precision::fast, within 2^-17
//   f16    two parts, exactly
//
// Rows are rounded part by part, so that the rest is below 2^-8 of the part before. Weights are
// cut, which saves an instruction, except for the last part, which is rounded. Three parts hold a
// weight exactly (8 + 8 + 8 bits), fewer parts within half a unit of the last one.
//
// Products of parts are computed whose ranks sum to less than kRanks. For f32 these are six of
// nine; the others are below 2^-22 of the product, and far below for random numbers.
#include "kernels/vector/bf16_runs.simd.h"

namespace rapt::RAPT_ISA {
namespace {

template <int Parts>
RAPT_INLINE void round_parts(F low, F high, Run (&parts)[Parts]) {
  UNROLL_FOR (int p = 0; p < Parts; ++p) {
    parts[p] = round_to_run(low, high);
    low = sub(low, low_of(parts[p]));
    high = sub(high, high_of(parts[p]));
  }
}

// Must a NaN stay a NaN? It need not where something else propagates it.
enum class Nan : uint8_t { stays, may_go };
// The parts of weights, each in the upper half of its lane; the last is rounded.
template <Nan kNan, int Parts>
RAPT_INLINE void cut_parts(F x, F (&parts)[Parts]) {
  UNROLL_FOR (int p = 0; p + 1 < Parts; ++p) {
    parts[p] = cut(x);
    x = sub(x, parts[p]);
  }
  parts[Parts - 1] = kNan == Nan::may_go ? add_half(x) : add_half_unless_nan(x);
}

// How a storage type is multiplied: parts of a row and of weights, ranks, and how 32 elements of a
// row become parts, 0 from the n-th on.
struct BFloat16Parts {
  using Stored = uint16_t;
  static constexpr int kParts = 1, kWeightParts = 1, kRanks = 1;
  static constexpr float kWeightScale = 1;
  static RAPT_INLINE void take(const Stored* row, int64_t stride, int64_t n, Run (&parts)[1]) {
    parts[0] = run_of_row(row, stride, n);
  }
};

// Can the route multiply x as parts? Zero and numbers between 2^-48 and 2^40 qualify: products of
// parts are at least 2^-48 2^-48 2^-16 and do not underflow, products of two rows stay below 2^80
// times their length, and with weights (kWeightScale) overflow is far.
RAPT_INLINE M is_inside(F x) { return zero_or_between(x, 0x1p-48f, 0x1p40f); }

// The same for elements that S widens to f32 first (storage.simd.h). Elements that do not qualify
// are packed as 0.
template <class S, int Parts, int WeightParts>
struct FloatParts {
  using Stored = typename S::Stored;
  static constexpr int kParts = Parts, kWeightParts = WeightParts, kRanks = WeightParts;
  static_assert(kParts <= kRanks);
  // The factor of weights before they are cut, by which sums of their products are divided: the
  // parts of the smallest normal weight are normal, too.
  static constexpr float kWeightScale = 0x1p32f;
  static RAPT_INLINE void widen(const Stored* row, int64_t stride, int64_t n, F& low, F& high) {
    Stored dense[32] = {};
    if (stride != 1) {
      for (int64_t d = 0; d < n && d < 32; ++d) dense[d] = row[d * stride];
      row = dense;
    }
    low = S::load_first(row, n), high = S::load_first(row + 16, n - 16);
  }
  static RAPT_INLINE void take(const Stored* row, int64_t stride, int64_t n, Run (&parts)[Parts]) {
    F low, high;
    widen(row, stride, n, low, high);
    round_parts<Parts>(only(is_inside(low), low), only(is_inside(high), high), parts);
  }
};

}  // namespace
}  // namespace rapt::RAPT_ISA
