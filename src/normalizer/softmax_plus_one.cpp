// The declaration of softmax_plus_one; its maths is in the header.
#include "rapt/normalizer/softmax_plus_one.h"

namespace rapt {

const Declaration SoftmaxPlusOne::kDeclaration = {
    "softmax_plus_one",
    "weights e^score / (1 + sum of e^score): a query may attend to nothing",
    "Miller 2023, \"Attention Is Off By One\"",
    {}};

}  // namespace rapt
