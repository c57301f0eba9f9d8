// The declaration of tanh_clip; the formula is in the header.
#include "rapt/score/tanh_clip.h"

namespace rapt {
namespace {

// Limits that are normal numbers of f32, as are their inverses.
constexpr Range kLimits{1e-30, 1e30};
constexpr Parameter kParameters[] = {parameter<TanhClip, &TanhClip::limit>(
    "limit", "the bound of a score's size", kLimits, {}, true)};
constexpr const char* kExamples[] = {"10", "1", "0.25"};

}  // namespace

const Declaration TanhClip::kDeclaration = {
    "tanh_clip", "scores are steepest at 0 and saturate at +-limit: limit tanh s",
    "Bello et al. 2016, arXiv:1611.09940, appendix", kParameters, kExamples};

}  // namespace rapt
