#pragma once
// The scores of a descriptor, whose grammar is in descriptor.h, and the library's scores for them.
#include <vector>

#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"
#include "rapt/catalogue.h"

namespace check {

std::vector<ScoreSpec> parse_scores(Scanner& in, const Descriptor& problem);

// Refers to the drawn numbers of the spec, which must outlive it.
rapt::MadeScore made(const ScoreSpec& spec);

// The ScoreRefs of `scores`, for options.scores.
std::vector<rapt::ScoreRef> refs_of(const std::vector<rapt::MadeScore>& scores);

}  // namespace check
