// The progress line. It is rewritten by a carriage return and blanks, which every terminal has.
#include "cli/output/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace rapt::cli {
namespace {

constexpr std::chrono::milliseconds kSilence{1000};  // shorter work needs no line
constexpr std::chrono::milliseconds kPause{100};     // updates are at least this far apart
constexpr std::chrono::milliseconds kJsonPause{500};

}  // namespace

std::string clock_text(double seconds) {
  const int64_t whole = std::llround(seconds);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

ProgressLine::ProgressLine(double flops, ProgressStyle style)
    : flops_(flops), style_(style), start_(Clock::now()), last_(start_) {
  if (style == ProgressStyle::terminal && isatty(STDERR_FILENO) != 1) style_ = ProgressStyle::none;
}

ProgressLine::~ProgressLine() { erase(); }

void ProgressLine::erase() noexcept {
  if (shown_ == 0) return;
  rewrite("");
  std::fputc('\r', stderr);
}

Progress ProgressLine::hook() {
  if (style_ == ProgressStyle::none) return {};
  return {[](void* self, double fraction) { static_cast<ProgressLine*>(self)->report(fraction); },
          this};
}

void ProgressLine::report(double fraction, const std::string& about) noexcept {
  const Clock::time_point now = Clock::now();
  const auto pause = style_ == ProgressStyle::json ? kJsonPause : kPause;
  if (style_ == ProgressStyle::none || now - start_ < kSilence || now - last_ < pause) return;
  if (fraction <= 0) return;
  last_ = now;
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (style_ == ProgressStyle::json) {
    fmt::print(stderr,
               "{{\"schema\":\"rapt.progress/1\",\"fraction\":{:.6f},\"seconds\":{:.3f},"
               "\"seconds_to_go\":{:.3f}}}\n",
               fraction, elapsed, elapsed * (1 - fraction) / fraction);
    return;
  }
  std::string line = about.empty() ? fmt::format("{:3.0f} %", 100 * fraction) : about;
  if (flops_ > 0) line += fmt::format("   {:.1f} GFLOP/s", 1e-9 * flops_ * fraction / elapsed);
  line += "   " + clock_text(elapsed * (1 - fraction) / fraction) + " to go";
  rewrite(line);
}

void ProgressLine::rewrite(const std::string& line) {
  const size_t blanks = shown_ > line.size() ? shown_ - line.size() : 0;
  std::fprintf(stderr, "\r%s%*s", line.c_str(), static_cast<int>(blanks), "");
  std::fflush(stderr);
  shown_ = line.size();
}

}  // namespace rapt::cli
