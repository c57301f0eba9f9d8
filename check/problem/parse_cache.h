#pragma once
// Reads how keys and values lie in a cache.
#include "check/problem/descriptor.h"
#include "check/problem/scanner.h"

namespace check {

// Throws if the pages do not hold exactly the keys of the problem.
CacheSpec parse_cache(Scanner& in, const Descriptor& problem);

// Throws if the problem, which has a cache, has what calls on a cache reject, or lacks sequences.
void check_beside_cache(Scanner& in, const Descriptor& problem);

}  // namespace check
