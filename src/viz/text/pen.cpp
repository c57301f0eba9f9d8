#include "viz/text/pen.h"

#include <charconv>
#include <cmath>
#include <numbers>
#include <utility>

namespace rapt::viz {
namespace {

class Pen {
 public:
  explicit Pen(const char* path) : at_(path), end_(path + std::char_traits<char>::length(path)) {}

  std::vector<Segment> draw() {
    while (at_ != end_) {
      const char command = *at_++;
      if (command == 'M') {
        down_ = false;
        if (next_is_number()) move();
      } else if (command == 'L') {
        const double x = number(), y = number();
        line_to(x, y);
      } else if (command == 'Q') {
        curve();
      } else if (command == 'O') {
        down_ = false;
        const double cx = number(), cy = number(), rx = number(), ry = number();
        arc(cx, cy, rx, ry, 0, 360);
      } else if (command == 'A') {
        const double cx = number(), cy = number(), rx = number(), ry = number();
        const double from = number(), to = number();
        arc(cx, cy, rx, ry, from, to);
      }
    }
    return std::move(segments_);
  }

 private:
  static constexpr double kDegreesPerSegment = 15;
  static constexpr int kSegmentsPerCurve = 6;

  bool next_is_number() const { return at_ != end_ && *at_ != ' '; }
  double number() {
    while (*at_ == ' ') ++at_;
    double value = 0;
    at_ = std::from_chars(at_, end_, value).ptr;
    return value;
  }
  void move() {
    x_ = number();
    y_ = number();
    down_ = true;
  }
  void line_to(double x, double y) {
    if (down_) segments_.push_back({x_, y_, x, y});
    x_ = x;
    y_ = y;
    down_ = true;
  }
  void curve() {
    const double cx = number(), cy = number(), x = number(), y = number();
    const double x0 = x_, y0 = y_;
    for (int i = 1; i <= kSegmentsPerCurve; ++i) {
      const double t = static_cast<double>(i) / kSegmentsPerCurve, s = 1 - t;
      line_to(s * s * x0 + 2 * s * t * cx + t * t * x, s * s * y0 + 2 * s * t * cy + t * t * y);
    }
  }
  void arc(double cx, double cy, double rx, double ry, double from, double to) {
    const int count = static_cast<int>(std::ceil(std::fabs(to - from) / kDegreesPerSegment));
    for (int i = 0; i <= count; ++i) {
      const double angle = (from + (to - from) * i / count) * std::numbers::pi / 180;
      line_to(cx + rx * std::cos(angle), cy + ry * std::sin(angle));
    }
  }

  const char* at_;
  const char* end_;
  bool down_ = false;
  double x_ = 0, y_ = 0;
  std::vector<Segment> segments_;
};

}  // namespace

std::vector<Segment> draw_path(const char* path) { return Pen(path).draw(); }

}  // namespace rapt::viz
