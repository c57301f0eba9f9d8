#pragma once
// How often the values of all axes (axes.h) were drawn.
#include <string>
#include <vector>

#include "check/draw/axes.h"

namespace check {

// Whether the library supports the value: it is not in kNotBuilt.
bool built(size_t axis, size_t value);

class AxisTally {
 public:
  AxisTally();

  void count(const GridPoint& point);

  // A line for each axis: "mask: none 12 | causal 9".
  std::string table() const;
  int64_t of(size_t axis, size_t value) const { return counts_[axis][value]; }

 private:
  std::vector<std::vector<int64_t>> counts_;  // [axes][values of the axis]
};

}  // namespace check
