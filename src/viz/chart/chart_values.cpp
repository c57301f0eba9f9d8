#include "viz/chart/chart_values.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "rapt/error.h"

namespace rapt::viz {
namespace {

// The room above and below the curves, as a share of the range of y.
constexpr double kHeadroom = 0.05;

void check_count(size_t count, const char* what) {
  if (count > kMaxSeries)
    throw Error(ErrorCode::unsupported, "a chart has at most " + std::to_string(kMaxSeries) + " " +
                                            what + ", got " + std::to_string(count));
}

Extent extent_of(const LineChart& chart, std::vector<double> Series::*values) {
  Extent extent{INFINITY, -INFINITY};
  for (const Series& series : chart.series)
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!shows_point(chart, series, i)) continue;
      extent.low = std::min(extent.low, (series.*values)[i]);
      extent.high = std::max(extent.high, (series.*values)[i]);
    }
  return extent;
}

}  // namespace

void check_chart(const LineChart& chart) {
  check_count(chart.series.size(), "series");
  check_count(chart.lines.size(), "lines across");
  bool any = false;
  for (size_t k = 0; k < chart.series.size(); ++k) {
    const Series& series = chart.series[k];
    if (series.x.size() != series.y.size())
      throw Error(ErrorCode::shape, "series " + std::to_string(k) + ": expected as many y as x, " +
                                        std::to_string(series.x.size()) + ", got " +
                                        std::to_string(series.y.size()));
    for (size_t i = 0; i < series.x.size(); ++i) any = any || shows_point(chart, series, i);
  }
  if (!any)
    throw Error(ErrorCode::shape,
                "a chart needs a finite point, above 0 on logarithmic axes, got none");
}

bool shows_point(const LineChart& chart, const Series& series, size_t i) {
  return ChartScale::shows(chart.x_axis.scale, series.x[i]) &&
         ChartScale::shows(chart.y_axis.scale, series.y[i]);
}

ChartScale x_scale_of(const LineChart& chart) {
  ChartScale scale(chart.x_axis, extent_of(chart, &Series::x));
  scale.begin_at_near_zero();
  return scale;
}

ChartScale y_scale_of(const LineChart& chart) {
  Extent extent = extent_of(chart, &Series::y);
  for (const LineAcross& line : chart.lines) {
    if (!ChartScale::shows(chart.y_axis.scale, line.y)) continue;
    extent.low = std::min(extent.low, line.y);
    extent.high = std::max(extent.high, line.y);
  }
  ChartScale scale(chart.y_axis, extent);
  scale.add_headroom(kHeadroom);
  return scale;
}

}  // namespace rapt::viz
