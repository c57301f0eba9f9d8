// The declaration of sparsemax; its maths is in the header.
#include "rapt/normalizer/sparsemax.h"

namespace rapt {

const Declaration Sparsemax::kDeclaration = {
    "sparsemax",
    "weights max(0, score - tau), which sum to 1: exactly 0 for all but a few keys",
    "Martins & Astudillo 2016, arXiv:1602.02068, equation 3",
    {}};

}  // namespace rapt
