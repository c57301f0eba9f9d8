#pragma once
// How tokens are drawn unless options say otherwise: by `rapt generate`, and in the samples of
// `rapt train`. A temperature below 1 makes improbable tokens rarer; min_p leaves out those with
// less than a share of the greatest probability (Nguyen et al. 2024, arXiv:2407.01082).
#include "rapt/generation/sampler.h"

namespace rapt::cli {

inline constexpr generation::SamplingOptions kDefaultSampling{.temperature = 0.8, .min_p = 0.05};

}  // namespace rapt::cli
