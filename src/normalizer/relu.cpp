// The declaration of relu; its maths is in the header.
#include "rapt/normalizer/relu.h"

namespace rapt {
namespace {

constexpr Range kPowers{1, 2}, kDivisors{1e-30, 1e30};  // whose inverse is a normal number of f32
constexpr Parameter kParameters[] = {
    parameter<Relu, &Relu::power>("power", "1, or 2 for the square", kPowers),
    parameter<Relu, &Relu::divisor>(
        "divisor", "what powers are divided by; not given: the number of keys", kDivisors)};
constexpr const char* kExamples[] = {"", "2", "2,7", "divisor=7", "2,0.25", "divisor=1"};

}  // namespace

const Declaration Relu::kDeclaration = {
    "relu", "weights max(0, score)^power / divisor, exactly 0 for scores that are not above 0",
    "Wortsman et al. 2023, arXiv:2309.08586; squared: Hua et al. 2022, arXiv:2202.10447",
    kParameters, kExamples};

}  // namespace rapt
