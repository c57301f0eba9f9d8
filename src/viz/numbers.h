#pragma once
// Numbers in pictures: round ticks, and text that does not depend on the locale.
#include <cstdint>
#include <string>
#include <vector>

namespace rapt::viz {

// "0.18". A value that rounds to zero has no sign; 1e6 and above is written with an exponent;
// "nan", "inf" and "-inf" where it is not finite.
std::string format_value(double value, int decimals);

// Three significant digits: "0.335", "1", "2e-05".
std::string format_short(double value);

// The first of 1, 2, 5, 10, 20, ... that is at least `least`.
int64_t round_step(double least);

struct Tick {
  double value;
  std::string text;
};

// At most about `count` multiples of 1, 2 or 5 times a power of ten between low and high; if low
// and high are too close to each other for that, these two.
std::vector<Tick> round_ticks(double low, double high, int count);

}  // namespace rapt::viz
