#pragma once
// Sizes of problems that several threads share.
#include <string_view>

#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// Draws lengths and dimensions, so that at least 2 threads pay for the problem, and 9 for some, but
// not of the size "decode". Packed sequences, which multiply fewer pairs, may pay for fewer. Some
// problems have more than the 1,024 keys that the library sums at once. `sizes`: a value of the
// axis of sizes. `square`: as many queries as keys.
void draw_shared_sizes(std::string_view sizes, bool square, Descriptor& d, Random& random);

}  // namespace check
