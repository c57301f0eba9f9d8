#include "check/draw/shared_work.h"

#include <algorithm>
#include <cmath>

#include "check/draw/sizes.h"

namespace check {
namespace {

// Multiplications as the library counts them (work_of() in src/attention/plan/tiling.cpp), without
// those that Descriptor::work() adds for each pair.
double products_of(const Descriptor& d) {
  const auto dims = static_cast<double>(d.head_dim + d.value_dim);
  return d.work() / (dims + 8) * dims;
}

}  // namespace

void draw_shared_sizes(std::string_view sizes, bool square, Descriptor& d, Random& random) {
  // The library takes another thread for 3 million multiplications (src/threads/workers.cpp).
  // With few queries, keys are most of the work to draw.
  const bool decode = sizes == "decode";
  const double work = decode ? 5e6 : random.pick({5e6, 1e7, 2.7e7});
  const bool wide = sizes == "wide";
  d.head_dim = random.between(wide ? 64 : 8, wide ? 129 : 64);
  d.value_dim = random.chance(0.6) ? d.head_dim : random.between(8, 64);
  if (sizes == "narrow value") d.value_dim = random.between(1, 3);
  d.q_len = d.k_len = 1;
  // The factor by which the problem has to grow to be `work` products.
  const auto missing = [&] { return std::max(1.0, std::ceil(work / products_of(d))); };
  if (square) {
    d.q_len = d.k_len = static_cast<int64_t>(std::ceil(std::sqrt(missing())));
    return;
  }
  d.q_len = decode ? random.between(1, 8) : random.pick(kLengths);
  // As many queries as keys are the fewest rows to draw.
  const double most = decode ? 1e6 : random.chance(0.3) ? 2500 : 768;
  d.k_len = static_cast<int64_t>(std::min(missing(), most));
  d.q_len *= static_cast<int64_t>(missing());
}

}  // namespace check
