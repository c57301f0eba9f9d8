#pragma once
// Dropout of attention weights: every allowed pair (query i, key j) is dropped with probability p,
// and the weights of the others are divided by 1 - p:
//
//   output_i = sum_j keep_ij w_ij v_j / (1 - p),    keep_ij = word(i, j) >= p 2^32
//
// where p is the probability rounded to a multiple of 2^-32, below 1.
//
// word(i, j) is a 32-bit number of a counter-based generator, so that nothing is stored: the
// backward pass computes the same numbers again, and neither threads, tiles nor instruction set
// change one. With Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2,
// 3", section 4.3):
//
//   key      (seed mod 2^32, seed / 2^32)
//   counter  (j / 4 mod 2^32, i mod 2^32, head mod 2^32,
//             (j / 4) / 2^32 + 2^10 (i / 2^32) + 2^21 (head / 2^32), mod 2^32)
//   word     number j mod 4 of the four
//
// i and j count in the tensors of the call, also of packed sequences, and `head` is the flat index
// into the leading dimensions of the output. So a batch cut in two draws other numbers for its
// second half; a call with other lengths draws the same ones for the same i, j and head.
//
// Dropped is not masked: the weight of a dropped pair is 0, but the pair stays one of those that
// the weights sum to 1 over, and a NaN of its query, key or value shows (0 * NaN is NaN) as that of
// any other pair that no mask excludes. A row of which all pairs are dropped has output 0.
//
// Only the output is changed: lse, returned weights, maps, entropy, top keys and received attention
// are those of the weights before dropout. Source: Srivastava et al. 2014 (dropout); Vaswani et al.
// 2017, arXiv:1706.03762, section 5.4, and what frameworks call attention dropout.
#include <cstdint>

#include "rapt/tensor.h"

namespace rapt {

struct Dropout {
  double probability = 0;  // in [0, 1): of a pair to be dropped, in steps of 2^-32; 0: no dropout
  uint64_t seed = 0;       // a new one for every step of training
};

// Which pairs are kept, as a mask: kept [..., q_len, k_len] boolean, of which the leading
// dimensions are those of the output of the call; any strides. Throws Error(argument) for a
// probability outside [0, 1), a null pointer, a read-only view or strides with which two elements
// meet, Error(dtype, shape).
void dropout_mask(const Dropout& dropout, const TensorView& kept);

}  // namespace rapt
