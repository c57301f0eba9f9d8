// The declaration of entmax15; its maths is in the header.
#include "rapt/normalizer/entmax15.h"

namespace rapt {

const Declaration Entmax15::kDeclaration = {
    "entmax15",
    "weights max(0, score / 2 - tau)^2, which sum to 1: between softmax and sparsemax",
    "Peters, Niculae & Martins 2019, arXiv:1905.05702, section 3",
    {}};

}  // namespace rapt
