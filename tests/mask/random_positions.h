#pragma once
// Positions as tiles of any kind may have them, for tests of masks.
#include <algorithm>

#include "check/tensors/random.h"
#include "rapt/positions.h"

namespace laws {

// start, start + step, ... below `length`, at most `most` of them.
inline rapt::Positions random_positions(check::Random& random, int64_t length, int64_t most) {
  rapt::Positions p;
  p.start = random.between(0, length - 1);
  p.step = random.chance(0.6) ? 1 : random.between(2, 5);
  p.count = random.between(1, std::min((length - 1 - p.start) / p.step + 1, most));
  return p;
}

}  // namespace laws
