#include "cli/scaling/scaling_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/process/failure.h"
#include "cli/process/interrupt.h"
#include "timing/clocks.h"

namespace rapt::cli {
namespace {

// Long calls average over enough disturbances.
constexpr Sampling kSampling{5, 3};
// The growth of a point's time between two lengths: that of linear work at least, of quadratic
// work at most, with room for what varies from point to point.
constexpr double kLeastPower = 1, kMostPower = 2, kRoom = 1.1;

// How long the point at n would take, by those before it; 0 without any.
double forecast(const MeasuredCurve& curve, int64_t n) {
  if (curve.points.empty()) return 0;
  const ScalingPoint& last = curve.points.back();
  double power = kMostPower;
  if (curve.points.size() > 1) {
    const ScalingPoint& before = curve.points[curve.points.size() - 2];
    power = std::log(last.seconds / before.seconds) /
            std::log(static_cast<double>(last.n) / static_cast<double>(before.n));
    power = std::clamp(power, kLeastPower, kMostPower);
  }
  const double times = static_cast<double>(n) / static_cast<double>(last.n);
  const double seconds = last.seconds * std::pow(times, power);
  // Inputs are drawn, too.
  const double beside = std::max(0.0, last.wall - kSampling.calls(last.seconds) * last.seconds);
  return kRoom * (kSampling.calls(seconds) * seconds + beside * times);
}

ScalingPoint scaling_point(const BenchResult& result, int64_t n, Passes passes, double wall) {
  const check::Descriptor& d = result.problem.problem;
  const double flops = result.plan.allowed_scores < 0
                           ? -1
                           : 2.0 * static_cast<double>(d.head_dim + d.value_dim) *
                                 static_cast<double>(result.plan.allowed_scores);
  // The caller asked for the results; those of the backward call are not known here. A call that
  // finds room in pages that the process holds shows no growth, and still takes its workspace.
  const int64_t results =
      passes == Passes::forward ? static_cast<int64_t>(result.plan.result_bytes) : 0;
  const int64_t growth =
      result.growth < 0
          ? -1
          : std::max(static_cast<int64_t>(result.plan.workspace_bytes), result.growth - results);
  return {n, result.median, result.deviation, growth, wall, flops, result.peak_gflops};
}

class ScalingRun {
 public:
  ScalingRun(const ScalingSettings& settings, PointsFile& file)
      : settings_(settings), file_(file), progress_(-1, settings.progress) {
    for (const ScalingCurve& curve : settings.curves) {
      result_.curves.emplace_back();
      result_.curves.back().name = curve.name;
    }
  }

  ScalingResult run() {
    const double start = timing::wall_seconds();
    for (const int64_t n : settings_.lengths)
      for (size_t k = 0; k < settings_.curves.size(); ++k) {
        stop_if_interrupted();
        spent_ = before_ + timing::wall_seconds() - start;
        take_point(k, n);
        progress_.report(std::min(0.999, spent_ / settings_.budget),
                         fmt::format("{} at {}", settings_.curves[k].name, n));
      }
    check_any();
    result_.seconds = timing::wall_seconds() - start;
    return std::move(result_);
  }

 private:
  void take_point(size_t k, int64_t n) {
    MeasuredCurve& curve = result_.curves[k];
    if (!curve.refused.empty()) return;
    const BenchCase one = settings_.problem(settings_.curves[k], n);
    if (const ScalingPoint* known = file_.find(one, settings_.passes)) {
      curve.points.push_back(*known);
      before_ += known->wall;
      return;
    }
    if (!curve.left_out.empty()) return leave_out(curve, n, "");
    if (spent_ + forecast(curve, n) > settings_.budget)
      return leave_out(curve, n, "beyond the budget of time");
    try {
      require_room(one, settings_.memory_limit);
      measure_point(curve, one, n, k == 0);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::cancelled) throw;
      const bool memory = error.code() == ErrorCode::memory_limit;
      if (memory && (k > 0 || !curve.points.empty()))
        return leave_out(curve, n, "beyond the memory");
      if (memory) throw;
      curve.refused = error.what();
    }
  }

  // The peak is drawn for exact attention alone.
  void measure_point(MeasuredCurve& curve, const BenchCase& one, int64_t n, bool peak) {
    const double start = timing::wall_seconds();
    Sampling sampling = kSampling;
    sampling.peak = peak;
    const BenchResult result = measured(one, sampling, settings_.passes);
    const double wall = timing::wall_seconds() - start;
    curve.points.push_back(scaling_point(result, n, settings_.passes, wall));
    file_.add(one, settings_.passes, curve.points.back());
    result_.timed += result.timed();
    ++result_.new_points;
  }

  static void leave_out(MeasuredCurve& curve, int64_t n, const std::string& why) {
    if (curve.left_out.empty()) curve.why_left_out = why;
    curve.left_out.push_back(n);
  }

  // Whether a method is left beside exact attention.
  void check_any() const {
    std::string refused;
    for (size_t k = 0; k < result_.curves.size(); ++k) {
      const MeasuredCurve& curve = result_.curves[k];
      if (curve.refused.empty() && (k > 0 || result_.curves.size() == 1)) return;
      if (refused.empty()) refused = curve.refused;
    }
    throw Failure(Exit::data, "no method can be computed: " + refused);
  }

  const ScalingSettings& settings_;
  PointsFile& file_;
  ProgressLine progress_;
  ScalingResult result_;
  // Points that were measured before count, so that a run that goes on has the points of one that
  // was not stopped.
  double before_ = 0;
  double spent_ = 0;  // seconds
};

}  // namespace

double ScalingResult::peak_gflops() const {
  double peak = 0;
  for (const MeasuredCurve& curve : curves)
    for (const ScalingPoint& point : curve.points) peak = std::max(peak, point.peak_gflops);
  return peak;
}

ScalingResult measure_scaling(const ScalingSettings& settings, PointsFile& file) {
  return ScalingRun(settings, file).run();
}

std::optional<int64_t> crossover(const MeasuredCurve& exact, const MeasuredCurve& curve) {
  std::optional<int64_t> from;
  for (const ScalingPoint& point : curve.points) {
    const auto same = std::ranges::find(exact.points, point.n, &ScalingPoint::n);
    if (same == exact.points.end()) continue;
    if (point.seconds >= same->seconds)
      from.reset();
    else if (!from)
      from = point.n;
  }
  return from;
}

}  // namespace rapt::cli
