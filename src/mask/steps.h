#pragma once
// Multiples of a step: remainders and multiples that round down also below 0, and runs of keys that
// lie a multiple of a step away from some positions.
#include <algorithm>

#include "rapt/mask/mask.h"

namespace rapt {

// More than any position, and no sum of two of them and positions overflows: a bound that is none.
inline constexpr int64_t kUnbounded = int64_t{1} << 61;

// The remainder of x / step, from 0 to step - 1.
inline int64_t remainder_of(int64_t x, int64_t step) noexcept {
  const int64_t r = x % step;
  return r < 0 ? r + step : r;
}

// The greatest multiple of `step` that is at most x.
inline int64_t multiple_below(int64_t x, int64_t step) noexcept {
  return x - remainder_of(x, step);
}

// The remainder of the next position, `by` positions further on, given that of this one.
inline int64_t next_remainder(int64_t r, int64_t by, int64_t step) noexcept {
  r += by;
  return r < step ? r : r - step < step ? r - step : r % step;
}

// The keys first + m step to last + m step of one m, `first` to `last` being positions.
struct RunOfSteps {
  int64_t m;
  KeyRange keys;
};

// That of the least m whose keys end at `from` or behind it. Runs that touch each other are not
// joined.
inline RunOfSteps run_of_steps(int64_t first, int64_t last, int64_t step, int64_t from) noexcept {
  const int64_t moved = multiple_below(from - last + step - 1, step);  // m step
  return {moved / step, {first + moved, last + moved + 1}};
}

// The keys of a run from `from` on, within [0, k_len); empty: {k_len, k_len}.
inline KeyRange part_of_run(KeyRange run, int64_t from, int64_t k_len) noexcept {
  const int64_t begin = std::max(run.begin, from), end = std::min(run.end, k_len);
  return begin < end ? KeyRange{begin, end} : KeyRange{k_len, k_len};
}

}  // namespace rapt
