#pragma once
// The scale of an axis of a chart: where a value stands, and the ticks.
#include <vector>

#include "rapt/viz/chart.h"
#include "viz/numbers.h"

namespace rapt::viz {

// The least and the greatest of some values.
struct Extent {
  double low, high;
};

class ChartScale {
 public:
  // Throws Error(argument) if the differences of the values of a linear axis are beyond double.
  ChartScale(const ChartAxis& axis, const Extent& values);

  // Room below and above the values, as a share of their range. A linear axis of values of one sign
  // stays on its side of 0.
  void add_headroom(double share);
  // A linear axis begins at 0 where this is near: within a tenth of the range.
  void begin_at_near_zero();

  // The place of a value on the axis, from 0 to 1.
  double part(double value) const;

  // At most about `count` round values; at least one.
  std::vector<Tick> ticks(int count) const;

  // Whether an axis of this scale can show the value.
  static bool shows(AxisScale scale, double value);

 private:
  bool logarithmic() const { return axis_.scale != AxisScale::linear; }
  double coordinate(double value) const;  // in which equal distances look equal
  std::vector<double> powers(int count) const;

  const ChartAxis axis_;
  double low_, high_;  // the ends of the axis, as coordinates
};

// A tick's text with its unit: "20 µs", "4 KiB".
std::string tick_text(double value, AxisUnit unit);

}  // namespace rapt::viz
