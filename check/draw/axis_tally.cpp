#include "check/draw/axis_tally.h"

#include <algorithm>

namespace check {

bool built(size_t axis, size_t value) {
  return std::ranges::none_of(kNotBuilt, [&](const AxisValue& v) {
    return v.axis == axis && v.value == kAxes[axis].values[value];
  });
}

AxisTally::AxisTally() {
  for (const Axis& axis : kAxes) counts_.emplace_back(axis.values.size());
}

void AxisTally::count(const GridPoint& point) {
  for (size_t axis = 0; axis < kAxisCount; ++axis) ++counts_[axis][point[axis]];
}

std::string AxisTally::table() const {
  std::string text;
  for (size_t axis = 0; axis < kAxisCount; ++axis) {
    std::string line = std::string(kAxes[axis].name) + ": ";
    for (size_t value = 0; value < counts_[axis].size(); ++value) {
      if (value > 0) line += " | ";
      line += std::string(kAxes[axis].values[value]) + " " +
              (built(axis, value) ? std::to_string(counts_[axis][value]) : "not built");
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace check
