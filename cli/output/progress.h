#pragma once
// The progress line on stderr: percent, speed, remaining time.
#include <chrono>
#include <cstdint>
#include <string>

#include "rapt/context.h"

namespace rapt::cli {

std::string clock_text(double seconds);  // "1:02:03", "0:07"

enum class ProgressStyle : uint8_t {
  terminal,  // one line that is rewritten and erased at the end; nothing unless stderr is a
             // terminal
  json,      // lines for programs (docs/json.md)
  none,
};

// Prints nothing during the first second.
class ProgressLine {
 public:
  // flops: the useful work of the whole computation; -1: unknown.
  explicit ProgressLine(double flops, ProgressStyle style = ProgressStyle::terminal);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  Progress hook();
  // `about`: what stands before the remaining time, in place of percent and speed.
  void report(double fraction, const std::string& about = "") noexcept;
  // Removes the line from the terminal, before something else is printed there. The next report()
  // shows it again.
  void erase() noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  void rewrite(const std::string& line);

  double flops_;
  ProgressStyle style_;
  Clock::time_point start_, last_;
  size_t shown_ = 0;  // columns of the line on the screen
};

}  // namespace rapt::cli
