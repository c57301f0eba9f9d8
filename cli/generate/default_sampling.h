#pragma once
// How tokens are drawn unless options say otherwise: by `rapt generate`, and in the samples of
// `rapt train`. Small models give much probability to tokens that do not fit; a lower temperature
// and the least share of the greatest probability leave most of them out (Nguyen et al. 2024,
// arXiv:2407.01082).
#include "rapt/generation/sampler.h"

namespace rapt::cli {

inline constexpr generation::SamplingOptions kDefaultSampling{.temperature = 0.8, .min_p = 0.05};

}  // namespace rapt::cli
