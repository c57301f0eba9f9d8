// The declaration of softcap; the formula is in the header.
#include "rapt/score/softcap.h"

namespace rapt {
namespace {

// Caps that are normal numbers of f32, as are their inverses.
constexpr Range kCaps{1e-30, 1e30};
constexpr Parameter kParameters[] = {
    parameter<Softcap, &Softcap::cap>("cap", "the bound of a score's size", kCaps, {}, true)};
constexpr const char* kExamples[] = {"30", "5", "0.5"};

}  // namespace

const Declaration Softcap::kDeclaration = {
    "softcap", "scores saturate smoothly at +-cap: cap tanh(s / cap)",
    "Gemma Team 2024, arXiv:2408.00118, section 2", kParameters, kExamples};

}  // namespace rapt
