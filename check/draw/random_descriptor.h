#pragma once
// Random problems for laws that hold for all of them.
//
// Sizes are around every boundary that the library has (SIMD lanes, tiles, blocks of keys). Leading
// dimensions broadcast and group; masks, bias, strides and scales come in all combinations. Only
// output, lse and weights are requested; law_grid.h draws over all options of a call.
#include <optional>

#include "check/problem/descriptor.h"
#include "check/tensors/random.h"

namespace check {

// The problems that a law allows. Everything else is drawn.
struct Wanted {
  bool masks = true;
  bool bias = true;
  bool leading = true;  // leading dimensions and grouped heads
  bool layouts = true;  // strides other than dense
  bool empty = true;    // lengths of 0
  bool rows = false;    // row transforms
  bool invariant = false;
  std::optional<DType> dtype;
  double max_work = 1.5e6;
};
// Neither masks nor bias, so that positions have no effect, and a row can be compared in calls of
// other sizes.
inline Wanted unmasked() {
  Wanted wanted;
  wanted.masks = wanted.bias = false;
  wanted.invariant = true;
  return wanted;
}

Descriptor random_descriptor(Random& random, const Wanted& wanted = {});

}  // namespace check
