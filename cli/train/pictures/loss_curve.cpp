#include "cli/train/pictures/loss_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace rapt::cli {
namespace {

// About as many as a picture of 560 units shows apart from each other.
constexpr size_t kMostMeans = 400;

}  // namespace

LossCurve::LossCurve(std::string_view log) {
  while (!log.empty()) {
    const size_t end = std::min(log.find('\n'), log.size());
    read_line(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
}

void LossCurve::read_line(std::string_view line) {
  const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
  if (!record.is_object() || !record.contains("record") || !record.contains("step") ||
      !record.contains("loss") || !record["step"].is_number_integer() ||
      !record["loss"].is_number())
    return;
  const int64_t step = record["step"].get<int64_t>();
  const double loss = record["loss"].get<double>();
  if (record["record"] == "step") add_update(step, loss);
  if (record["record"] == "evaluation") add_evaluation(step, loss);
}

void LossCurve::add_update(int64_t step, double loss) {
  if (means_.empty() || means_.back().updates == updates_per_mean_) {
    if (means_.size() == kMostMeans) join_pairs();
    means_.emplace_back();
  }
  Mean& last = means_.back();
  last.steps += static_cast<double>(step);
  last.losses += loss;
  ++last.updates;
}

void LossCurve::join_pairs() {
  static_assert(kMostMeans % 2 == 0);
  for (size_t i = 0; i < kMostMeans / 2; ++i) {
    const Mean &a = means_[2 * i], &b = means_[2 * i + 1];
    means_[i] = {a.steps + b.steps, a.losses + b.losses, a.updates + b.updates};
  }
  means_.resize(kMostMeans / 2);
  updates_per_mean_ *= 2;
}

void LossCurve::add_evaluation(int64_t step, double loss) {
  held_out_.x.push_back(static_cast<double>(step));
  held_out_.y.push_back(loss);
}

viz::LineChart LossCurve::chart() const {
  viz::Series training{.name = "training"};
  if (updates_per_mean_ > 1)
    training.name += fmt::format(", means of {} updates", updates_per_mean_);
  for (const Mean& mean : means_) {
    const auto updates = static_cast<double>(mean.updates);
    training.x.push_back(mean.steps / updates);
    training.y.push_back(mean.losses / updates);
  }
  return {.series = {std::move(training), held_out_},
          .title = "Loss",
          .x_axis = {.label = "Updates"},
          .y_axis = {.label = "Loss in nats per token"}};
}

}  // namespace rapt::cli
