// The progress line. It is rewritten by a carriage return and blanks, which every terminal has.
#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace rapt::cli {
namespace {

constexpr std::chrono::milliseconds kSilence{1000};  // shorter work needs no line
constexpr std::chrono::milliseconds kPause{100};     // faster than anybody reads

std::string time_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressLine::ProgressLine(double flops)
    : flops_(flops), terminal_(isatty(STDERR_FILENO) == 1), start_(Clock::now()), last_(start_) {}

ProgressLine::~ProgressLine() {
  if (shown_ > 0) {
    rewrite("");
    std::fputc('\r', stderr);
  }
}

Progress ProgressLine::hook() {
  if (!terminal_) return {};
  return {[](void* self, double fraction) { static_cast<ProgressLine*>(self)->report(fraction); },
          this};
}

void ProgressLine::report(double fraction) noexcept {
  const Clock::time_point now = Clock::now();
  if (now - start_ < kSilence || now - last_ < kPause || fraction <= 0) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  std::string line = fmt::format("{:3.0f} %", 100 * fraction);
  if (flops_ > 0) line += fmt::format("   {:.1f} GFLOP/s", 1e-9 * flops_ * fraction / elapsed);
  line += "   " + time_text(elapsed * (1 - fraction) / fraction) + " to go";
  rewrite(line);
}

void ProgressLine::rewrite(const std::string& line) {
  const size_t blanks = shown_ > line.size() ? shown_ - line.size() : 0;
  std::fprintf(stderr, "\r%s%*s", line.c_str(), static_cast<int>(blanks), "");
  std::fflush(stderr);
  shown_ = line.size();
}

}  // namespace rapt::cli
