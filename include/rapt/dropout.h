#pragma once
// Dropout of attention weights: every allowed pair (query i, key j) is dropped with probability p,
// and the weights of the others are divided by 1 - p:
//
//   output_i = sum_j keep_ij w_ij v_j / (1 - p),    keep_ij = word(i, j) >= p 2^32
//
// where p is the probability rounded to a multiple of 2^-32, below 1.
//
// word(i, j) is a 32-bit number of a counter-based generator, so that nothing is stored. The
// backward pass computes the same numbers again, and they do not depend on threads, tiles or
// instruction set. With Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1,
// 2, 3", section 4.3):
//
//   key      (seed mod 2^32, seed / 2^32)
//   counter  (j / 4 mod 2^32, i mod 2^32, head mod 2^32,
//             (j / 4) / 2^32 + 2^10 (i / 2^32) + 2^21 (head / 2^32), mod 2^32)
//   word     number j mod 4 of the four
//
// i and j are counted in the tensors of the call, also for packed sequences, and `head` is the flat
// index into the leading dimensions of the output. So if a batch is split in two calls, its second
// half gets other numbers. A call with other lengths gets the same numbers for the same i, j and
// head.
//
// A dropped pair is not masked. Its weight is 0, but the pair is still part of the sum by which
// weights are divided, and a NaN of its query, key or value propagates (0 * NaN is NaN) as for any
// other unmasked pair. A row whose pairs are all dropped has output 0.
//
// Only the output changes: lse, returned weights, maps, entropy, top keys and received attention
// are those of the weights before dropout. Source: Srivastava et al. 2014 (dropout); Vaswani et al.
// 2017, arXiv:1706.03762, section 5.4; frameworks call it attention dropout.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

struct Dropout {
  double probability = 0;  // of dropping a pair, in [0, 1), in steps of 2^-32; 0: no dropout
  uint64_t seed = 0;       // a new one for every step of training
};

// Writes which pairs are kept as a boolean mask: kept [..., q_len, k_len], with the leading
// dimensions of the output of the call and any strides. Throws Error(argument) for a probability
// outside [0, 1), a null pointer, a read-only view or strides with which elements overlap,
// Error(dtype, shape).
void dropout_mask(const Dropout& dropout, const TensorView& kept);

}  // namespace rapt
