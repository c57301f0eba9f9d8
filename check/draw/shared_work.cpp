#include "check/draw/shared_work.h"

#include <algorithm>
#include <cmath>

#include "check/draw/sizes.h"

namespace check {

void draw_shared_sizes(std::string_view sizes, bool square, Descriptor& d, Random& random) {
  // The library takes another thread for 3 million multiplications (src/threads/workers.cpp).
  const double work = random.pick({5e6, 1e7, 2.7e7});
  const bool wide = sizes == "wide";
  d.head_dim = random.between(wide ? 64 : 8, wide ? 129 : 64);
  d.value_dim = random.chance(0.6) ? d.head_dim : random.between(8, 64);
  if (sizes == "narrow value") d.value_dim = random.between(1, 3);
  d.q_len = d.k_len = 1;
  // What work has to be multiplied by.
  const auto missing = [&] { return std::max(1.0, std::ceil(work / d.work())); };
  if (square) {
    d.q_len = d.k_len = static_cast<int64_t>(std::ceil(std::sqrt(missing())));
    return;
  }
  d.q_len = sizes == "decode" ? random.between(1, 8) : random.pick(kLengths);
  // As many queries as keys are the fewest rows to draw.
  d.k_len = static_cast<int64_t>(std::min(missing(), sizes == "decode" ? 4096.0 : 768.0));
  if (sizes != "decode") d.q_len *= static_cast<int64_t>(missing());
}

}  // namespace check
