#include "viz/chart/spread.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace rapt::viz {

std::vector<double> spread(const std::vector<double>& wanted, double gap, double low, double high) {
  std::vector<size_t> order(wanted.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return wanted[a] < wanted[b]; });
  // Less the gaps before each label, places only need to rise. Labels that would fall are pooled.
  struct Pool {
    double mean;
    size_t count;
  };
  std::vector<Pool> pools;
  for (size_t i = 0; i < order.size(); ++i) {
    Pool last{wanted[order[i]] - static_cast<double>(i) * gap, 1};
    while (!pools.empty() && pools.back().mean >= last.mean) {
      const auto before = static_cast<double>(pools.back().count);
      const auto after = static_cast<double>(last.count);
      last = {(pools.back().mean * before + last.mean * after) / (before + after),
              pools.back().count + last.count};
      pools.pop_back();
    }
    pools.push_back(last);
  }
  std::vector<double> places(wanted.size());
  const double highest = high - gap * (static_cast<double>(wanted.size()) - 1);
  size_t next = 0;
  for (const Pool& pool : pools)
    for (size_t k = 0; k < pool.count; ++k, ++next)
      places[order[next]] =
          std::max(low, std::min(highest, pool.mean)) + static_cast<double>(next) * gap;
  return places;
}

}  // namespace rapt::viz
