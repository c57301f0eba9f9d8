// The declaration of entmax; its maths is in the header.
#include "rapt/normalizer/entmax.h"

namespace rapt {
namespace {

constexpr Range kAlphas{1.01, 2};
constexpr Parameter kParameters[] = {
    parameter<Entmax, &Entmax::alpha>(
        "alpha",
        "how sparse: near 1 as softmax, which is alpha = 1; 1.5 entmax15, 2 sparsemax; not given: "
        "alphas, or 1.5",
        kAlphas),
    head_parameter<Entmax, &Entmax::alphas>(
        "alphas", "an alpha per head [..., heads], f32 or f64, instead of alpha", 0, false, kAlphas,
        1.5)};
// Also numbers beside those that have a formula of their own.
constexpr const char* kExamples[] = {"",
                                     "1.05",
                                     "1.25",
                                     "1.3333333333333333",
                                     "1.4999999999999998",
                                     "1.5",
                                     "1.5000000000000002",
                                     "1.9",
                                     "1.9999999999999998",
                                     "2",
                                     "alphas=1.05",
                                     "alphas=1.2",
                                     "alphas=1.3",
                                     "alphas=1.3333333333333333",
                                     "alphas=1.4999999999999998",
                                     "alphas=1.5",
                                     "alphas=1.5000000000000002",
                                     "alphas=1.7",
                                     "alphas=1.9999999999999998",
                                     "alphas=2"};

}  // namespace

const Declaration Entmax::kDeclaration = {
    "entmax", "weights max(0, (alpha - 1) score - tau)^(1 / (alpha - 1)), which sum to 1",
    "Peters, Niculae & Martins 2019, arXiv:1905.05702, equation 11", kParameters, kExamples};

void Entmax::check() const {
  if (alphas.defined() && alpha == alpha)
    throw Error(ErrorCode::argument,
                "normalizer entmax has an alpha for all heads and one for each; expected one of "
                "them");
}

}  // namespace rapt
