#include "viz/numbers.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace rapt::viz {
namespace {

std::string to_text(double value, std::chars_format format, int precision) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value, format, precision);
  std::string text(buffer, result.ptr);
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

}  // namespace

std::string format_value(double value, int decimals) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  const bool long_number = std::fabs(value) >= 1e6;
  return to_text(value, long_number ? std::chars_format::scientific : std::chars_format::fixed,
                 decimals);
}

std::string format_short(double value) { return to_text(value, std::chars_format::general, 3); }

int64_t round_step(double least) {
  for (int64_t power = 1;; power *= 10)
    for (int64_t digit : {1, 2, 5})
      if (static_cast<double>(digit * power) >= least) return digit * power;
}

std::vector<Tick> round_ticks(double low, double high, int count) {
  // If the range is too narrow for its distance from zero, multiples would look equal in print.
  if (high - low < 1e-9 * std::max(std::fabs(low), std::fabs(high)))
    return {{low, format_short(low)}, {high, format_short(high)}};
  const double raw = (high - low) / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  const double ratio = raw / power * (1 - 1e-9);  // 2.0000000001 is 2
  const double step = (ratio <= 1 ? 1 : ratio <= 2 ? 2 : ratio <= 5 ? 5 : 10) * power;
  const double decimals = -std::floor(std::log10(step) + 1e-9);
  std::vector<Tick> ticks;
  const double first = std::ceil(low / step - 1e-9);
  const double last = std::floor(high / step + 1e-9);
  for (double k = first; k <= last && ticks.size() < 100; ++k) {
    const double value = k * step;
    const bool plain = decimals <= 6 && std::fabs(value) < 1e6;
    ticks.push_back({value, plain ? format_value(value, std::max(0, static_cast<int>(decimals)))
                                  : to_text(value, std::chars_format::general, 4)});
  }
  return ticks;
}

}  // namespace rapt::viz
