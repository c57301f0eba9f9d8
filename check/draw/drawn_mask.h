#pragma once
// Masks of the catalogue with arguments and tensors at random, as their declarations allow.
#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// A mask with one of its examples, or with arguments from the ranges of its declaration. The
// library accepts it for the sizes of `problem`. Optional tensors are there if `with_tensors`.
MaskSpec drawn_mask(Random& random, const rapt::Declaration& mask, const Descriptor& problem,
                    bool with_tensors);

// Any mask that combines no others; without `tensors`, one that has none.
MaskSpec drawn_leaf(Random& random, const Descriptor& problem, bool tensors);

// Dimensions that broadcast to [leading, q_len, k_len].
Dims drawn_matrix_dims(Random& random, const Descriptor& problem);

}  // namespace check
