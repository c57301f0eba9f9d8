#pragma once
// A line on stderr while something takes long: percent, speed, time to go.
#include <chrono>
#include <string>

#include "rapt/context.h"

namespace rapt::cli {

// Silent unless stderr is a terminal, and for the first second. The line is erased at the end.
class ProgressLine {
 public:
  // flops: the useful work of all, -1 if it is not known.
  explicit ProgressLine(double flops);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Progress hook();

 private:
  using Clock = std::chrono::steady_clock;
  void report(double fraction) noexcept;
  void rewrite(const std::string& line);

  double flops_;
  bool terminal_;
  Clock::time_point start_, last_;
  size_t shown_ = 0;  // columns of the line that is on the screen
};

}  // namespace rapt::cli
