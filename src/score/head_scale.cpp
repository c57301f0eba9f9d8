// The declaration of head_scale; the formula is in the header.
#include "rapt/score/head_scale.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {head_parameter<HeadScale, &HeadScale::scales>(
    "scales", "a factor per head [..., heads], f32 or f64", 0, true, kAnyNumber, 1)};

}  // namespace

const Declaration HeadScale::kDeclaration = {"head_scale", "scores times a learned factor per head",
                                             "Henry et al. 2020, arXiv:2010.04245", kParameters};

}  // namespace rapt
