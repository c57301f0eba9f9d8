#pragma once
// The values of a chart: whether they can be drawn, and what they span.
#include "rapt/viz/chart.h"
#include "viz/chart/chart_scale.h"

namespace rapt::viz {

// Throws what the functions of chart.h throw for a chart that cannot be drawn.
void check_chart(const LineChart& chart);

// Whether both axes can show the point.
bool shows_point(const LineChart& chart, const Series& series, size_t i);

// The scales of the axes, for all points and lines across that they can show.
ChartScale x_scale_of(const LineChart& chart);
ChartScale y_scale_of(const LineChart& chart);

}  // namespace rapt::viz
