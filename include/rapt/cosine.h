#pragma once
// Cosine attention: rows of query and key are divided by their lengths before they are multiplied
// (and before rotary embedding, if there is any), so that their products are cosines:
//
//   y = x / max(|x|, epsilon)
//   dx = (dy - y (y . dy)) / |x|,   dy / epsilon where |x| is not above epsilon
//
// Finite rows have an exact cosine even if their squares overflow or underflow in the dtype.
//
// With the default scale, 1 / sqrt(head_dim), cosines give nearly equal weights: choose a scale of
// about 10. Its gradient is that of a learned temperature.
//
// Source: Henry et al. 2020, "Query-Key Normalization for Transformers", arXiv:2010.04245, section
// 3; Liu et al. 2021 (Swin V2), arXiv:2111.09883, section 3.2. The epsilon is that of PyTorch's
// nn.functional.normalize.
#include "rapt/declaration.h"

namespace rapt {

// Divides rows of query and key by their lengths.
struct Cosine {
  double epsilon = 1e-12;  // above 0

  static const Declaration kDeclaration;
};

}  // namespace rapt
