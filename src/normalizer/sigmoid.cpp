// The declaration of sigmoid; its maths is in the header.
#include "rapt/normalizer/sigmoid.h"

namespace rapt {
namespace {

// Added to a larger bias, scores would vanish in rounding. Times log2(e), these fit f32.
constexpr Range kBiases{-1e30, 1e30};
constexpr Parameter kParameters[] = {parameter<Sigmoid, &Sigmoid::bias>(
    "bias", "added to every score; not given: -ln of the number of keys", kBiases)};
constexpr const char* kExamples[] = {"", "-7", "-1.5", "0", "3"};

}  // namespace

const Declaration Sigmoid::kDeclaration = {
    "sigmoid", "weights 1 / (1 + e^-(score + bias)), each by its own score alone",
    "Ramapuram et al. 2024, arXiv:2409.04431, equation 3", kParameters, kExamples};

}  // namespace rapt
