#include "rapt/nn/schedule.h"

#include <cmath>
#include <numbers>
#include <string>

#include "rapt/error.h"

namespace rapt::nn {
namespace {

void check_schedule(const WarmupCosine& s, int64_t step) {
  const auto fail = [](const std::string& what) {
    throw Error(ErrorCode::argument, "the schedule of learning rates: " + what);
  };
  if (!(s.peak >= 0 && std::isfinite(s.peak)))
    fail("peak is " + std::to_string(s.peak) + "; expected a finite number, 0 or more");
  if (s.warmup_steps < 0 || s.total_steps < s.warmup_steps)
    fail("warmup_steps is " + std::to_string(s.warmup_steps) + " and total_steps is " +
         std::to_string(s.total_steps) + "; expected 0 <= warmup_steps <= total_steps");
  if (!(s.min_ratio >= 0 && s.min_ratio <= 1))
    fail("min_ratio is " + std::to_string(s.min_ratio) + "; expected 0 to 1");
  if (step < 0) fail("step is " + std::to_string(step) + "; expected 0 or more");
}

}  // namespace

double learning_rate(const WarmupCosine& schedule, int64_t step) {
  check_schedule(schedule, step);
  const auto& [peak, warmup, total, min_ratio] = schedule;
  const double lowest = min_ratio * peak;
  if (step < warmup)
    return peak * (static_cast<double>(step + 1) / (static_cast<double>(warmup) + 1));
  if (step >= total) return lowest;
  const double progress = static_cast<double>(step - warmup) / static_cast<double>(total - warmup);
  return lowest + (peak - lowest) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
}

}  // namespace rapt::nn
