#pragma once
// Random problems for laws that hold for all of them.
//
// Sizes lie around every boundary that the library has (SIMD lanes, tiles, blocks of keys); leading
// dimensions broadcast and group; masks, bias, strides and scales come in all combinations. Only
// output, lse and weights are asked for; law_grid.h draws over all that a call can ask for.
#include <optional>

#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// What a law can take. Everything else is drawn.
struct Wanted {
  bool masks = true;
  bool bias = true;
  bool leading = true;  // leading dimensions and grouped heads
  bool layouts = true;  // strides other than dense
  bool empty = true;    // lengths of 0
  bool rows = false;    // that change before they are multiplied
  bool invariant = false;
  std::optional<DType> dtype;
  double max_work = 1.5e6;
};
// Neither masks nor bias: positions mean nothing. A row may be looked at in calls of other sizes.
inline Wanted unmasked() {
  Wanted wanted;
  wanted.masks = wanted.bias = false;
  wanted.invariant = true;
  return wanted;
}

Descriptor random_descriptor(Random& random, const Wanted& wanted = {});

}  // namespace check
