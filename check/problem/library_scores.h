#pragma once
// The library's scores for those of a descriptor, made from their text.
#include <vector>

#include "check/spec/score_spec.h"
#include "rapt/catalogue.h"

namespace check {

// Looks at the numbers of the spec, which must outlive it.
rapt::MadeScore made(const ScoreSpec& spec);

// What options.scores takes.
std::vector<rapt::ScoreRef> refs_of(const std::vector<rapt::MadeScore>& scores);

}  // namespace check
