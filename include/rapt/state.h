#pragma once
// The forward state: output and statistic, which suffice to merge results over disjoint keys and to
// run the backward pass.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

// The meaning of the one number per row, which the normaliser declares.
enum class Statistic : uint8_t {
  none,       // no number per row (sigmoid, relu); it is 0
  lse,        // natural logarithm of the sum by which weights are divided (softmax: of e^score over
              // the keys; -inf for a row without keys)
  threshold,  // tau of sparsemax and entmax
};

// Views of the caller's memory. Default-constructed members are absent: their result is not wanted.
struct AttentionState {
  TensorView output = {};     // [..., q_len, value_dim], the query's dtype or options.output_dtype
  TensorView statistic = {};  // [..., q_len], f32 (f64 for f64); its meaning: Plan::statistic
};

struct NormalizerRef;

// Merges the results over two disjoint sets of keys into the result over their union, in `into`:
//
//   lse'    = log(e^lse_a + e^lse_b)
//   output' = e^(lse_a - lse') output_a + e^(lse_b - lse') output_b
//
// merge() is commutative, and associative up to rounding. If the lse of a row is -inf on one side
// (no key there), the result has the bits of the other side. Both states need output [..., n,
// value_dim] and statistic [..., n] of equal shapes and of one dtype, f32 or f64: for 16-bit inputs
// request an f32 output. Strides are free, but `into` must overlap neither `from` nor itself.
// Throws Error(unsupported) for a normaliser whose results cannot be merged, Error(shape, dtype,
// argument, overlap, overflow). Source: Milakov & Gimelshein 2018, arXiv:1805.02867; Dao et al.
// 2023 (Flash-Decoding).
void merge(const AttentionState& into, const AttentionState& from, const NormalizerRef& normalizer);

}  // namespace rapt
