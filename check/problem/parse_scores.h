#pragma once
// The scores of a descriptor: the grammar is in descriptor.h.
#include <vector>

#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"

namespace check {

std::vector<ScoreSpec> parse_scores(Scanner& in, const Descriptor& problem);

}  // namespace check
