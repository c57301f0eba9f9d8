// Softmax's declaration; its maths is in the header.
#include "rapt/normalizer/softmax.h"

namespace rapt {

const Declaration Softmax::kDeclaration = {"softmax",
                                           "weights e^score / sum of e^score over the keys",
                                           "Vaswani et al. 2017, arXiv:1706.03762, equation 1",
                                           {}};

}  // namespace rapt
