#include "viz/chart/chart_scale.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <span>
#include <string>

#include "rapt/error.h"

namespace rapt::viz {
namespace {

// Ranges below it count as one value: quotients of their parts would not be finite.
constexpr double kLeastRange = 1e-300;
// Half the range that one value gets on a logarithmic axis, in powers of its base.
constexpr double kLoneReach = 0.5;
// Steps of the exponents of ticks, in order. Those of bytes end at powers of 1,024.
constexpr int kSteps[] = {1, 2, 3, 4, 5, 10, 20, 50, 100, 200, 500, 1000, 2000};
constexpr int kByteSteps[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000};
constexpr double kRounding = 1e-9;  // of an exponent

std::string plain_text(double value) {
  // Whole numbers as digits; four significant digits are enough for any other tick.
  const bool whole = value == std::round(value) && std::fabs(value) < 1e10;
  char buffer[64];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value,
                    whole ? std::chars_format::fixed : std::chars_format::general, whole ? 0 : 4);
  return {buffer, result.ptr};
}

}  // namespace

std::string tick_text(double value, AxisUnit unit) {
  struct Prefix {
    double size;
    const char* name;
  };
  constexpr Prefix kSeconds[] = {{1, " s"}, {1e-3, " ms"}, {1e-6, " \u00b5s"}, {1e-9, " ns"}};
  constexpr Prefix kBytes[] = {
      {0x1p40, " TiB"}, {0x1p30, " GiB"}, {0x1p20, " MiB"}, {0x1p10, " KiB"}, {1, " B"}};
  if (unit == AxisUnit::none || value == 0) return plain_text(value);
  const std::span<const Prefix> prefixes =
      unit == AxisUnit::seconds ? std::span<const Prefix>(kSeconds) : kBytes;
  for (const Prefix& prefix : prefixes)
    if (std::fabs(value) >= prefix.size * (1 - kRounding) || &prefix == &prefixes.back()) {
      // A tick is a few digits times a power of ten, which the quotient misses by rounding.
      const double count = value / prefix.size;
      const double nearest = std::round(count);
      return plain_text(std::fabs(count - nearest) < kRounding * nearest ? nearest : count) +
             prefix.name;
    }
  return "";
}

bool ChartScale::shows(AxisScale scale, double value) {
  return std::isfinite(value) && (scale == AxisScale::linear || value > 0);
}

double ChartScale::coordinate(double value) const {
  return axis_.scale == AxisScale::linear ? value
         : axis_.scale == AxisScale::log2 ? std::log2(value)
                                          : std::log10(value);
}

ChartScale::ChartScale(const ChartAxis& axis, const Extent& values)
    : axis_(axis), low_(coordinate(values.low)), high_(coordinate(values.high)) {
  if (!std::isfinite(2 * (high_ - low_)) || !std::isfinite(2 * high_) || !std::isfinite(2 * low_))
    throw Error(ErrorCode::argument, "the differences of the values of a chart are beyond double");
  if (high_ - low_ >= kLeastRange) return;
  // One value: in the middle.
  const double reach = logarithmic() ? kLoneReach
                       : high_ == 0  ? 1
                                     : std::max(std::fabs(high_) / 2, kLeastRange);
  low_ -= reach;
  high_ += reach;
}

void ChartScale::add_headroom(double share) {
  const double room = share * (high_ - low_);
  const bool one_side = !logarithmic();
  low_ = one_side && low_ >= 0 ? std::max(0.0, low_ - room) : low_ - room;
  high_ = one_side && high_ <= 0 ? std::min(0.0, high_ + room) : high_ + room;
}

void ChartScale::begin_at_near_zero() {
  if (!logarithmic() && low_ > 0 && 10 * low_ <= high_ - low_) low_ = 0;
}

double ChartScale::part(double value) const { return (coordinate(value) - low_) / (high_ - low_); }

// The values of the finest row of at most `count` powers, of their 1, 2 and 5 times where these
// have room; fewer than two if the range is too narrow for powers.
std::vector<double> ChartScale::powers(int count) const {
  const double first = std::ceil(low_ - kRounding), last = std::floor(high_ + kRounding);
  const bool ten = axis_.scale == AxisScale::log10;
  std::vector<double> values;
  if (ten && last - first < count) {
    for (double k = first - 1; k <= last; ++k)
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double exponent = k + std::log10(digit);
        if (exponent >= low_ - kRounding && exponent <= high_ + kRounding)
          values.push_back(digit * std::pow(10.0, k));
      }
    if (std::ssize(values) <= count) return values;
    values.clear();
  }
  const std::span<const int> steps =
      axis_.unit == AxisUnit::bytes && !ten ? std::span<const int>(kByteSteps) : kSteps;
  for (const int step : steps) {
    const double from = std::ceil(first / step), to = std::floor(last / step);
    if (to - from + 1 > count && step != steps.back()) continue;
    for (double k = from; k <= to; ++k)
      values.push_back(ten ? std::pow(10.0, k * step) : std::exp2(k * step));
    break;
  }
  return values;
}

std::vector<Tick> ChartScale::ticks(int count) const {
  std::vector<Tick> ticks;
  if (logarithmic()) {
    const std::vector<double> values = powers(std::max(count, 1));
    for (const double value : values) ticks.push_back({value, tick_text(value, axis_.unit)});
    if (ticks.size() >= 2 || (count <= 1 && !ticks.empty())) return ticks;
    const bool ten = axis_.scale == AxisScale::log10;
    ticks = round_ticks(ten ? std::pow(10.0, low_) : std::exp2(low_),
                        ten ? std::pow(10.0, high_) : std::exp2(high_), count);
  } else {
    ticks = round_ticks(low_, high_, count);
  }
  if (axis_.unit != AxisUnit::none)
    for (Tick& tick : ticks) tick.text = tick_text(tick.value, axis_.unit);
  return ticks;
}

}  // namespace rapt::viz
