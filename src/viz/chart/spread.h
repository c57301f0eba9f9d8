#pragma once
// Labels in a column: as near as possible to where they belong, and apart from each other.
#include <vector>

namespace rapt::viz {

// Places at least `gap` apart in [low, high], in the order of the wanted ones, with the least sum
// of squared distances from them (pooling of adjacent violators; Ayer et al. 1955). The room must
// suffice: (count - 1) * gap <= high - low.
std::vector<double> spread(const std::vector<double>& wanted, double gap, double low, double high);

}  // namespace rapt::viz
