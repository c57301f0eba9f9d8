#pragma once
// Makes the library's scores from the text of a descriptor's scores.
#include <vector>

#include "check/spec/score_spec.h"
#include "rapt/catalogue.h"

namespace check {

// Refers to the numbers of the spec, which must outlive it.
rapt::MadeScore made(const ScoreSpec& spec);

// The ScoreRefs of `scores`, for options.scores.
std::vector<rapt::ScoreRef> refs_of(const std::vector<rapt::MadeScore>& scores);

}  // namespace check
