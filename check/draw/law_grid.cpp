#include "check/draw/law_grid.h"

#include <algorithm>
#include <functional>

namespace check {
namespace {

enum PairState : uint8_t { kMissing, kDrawn, kImpossible };

}  // namespace

LawGrid::LawGrid(uint64_t seed, InputKinds inputs, Work work)
    : inputs_(inputs), work_(work), random_(seed) {
  for (const Axis& axis : kAxes) {
    begin_.push_back(values_);
    values_ += axis.values.size();
  }
  pairs_.assign(values_ * values_, kImpossible);
  for (size_t a = 0; a < kAxisCount; ++a)
    for (size_t b = a + 1; b < kAxisCount; ++b)
      for (size_t x = 0; x < kAxes[a].values.size(); ++x)
        for (size_t y = 0; y < kAxes[b].values.size(); ++y)
          if (drawable(a, x) && drawable(b, y) && !conflict(a, x, b, y)) {
            drawn(a, x, b, y) = kMissing;
            ++pairs_all_;
          }
  pairs_missing_ = pairs_all_;
}

uint8_t& LawGrid::drawn(size_t axis_a, size_t value_a, size_t axis_b, size_t value_b) {
  size_t a = begin_[axis_a] + value_a, b = begin_[axis_b] + value_b;
  if (a > b) std::swap(a, b);
  return pairs_[a * values_ + b];
}

bool LawGrid::drawable(size_t axis, size_t value) const {
  const bool normal = value == 0 || (axis != kInputsAxis && axis != kMethodAxis);
  return built(axis, value) && (normal || inputs_ == InputKinds::any);
}

// Whether `axis` can have `value` together with the values chosen so far.
bool LawGrid::possible(const GridPoint& point, size_t chosen, size_t axis, size_t value) const {
  if (!drawable(axis, value)) return false;
  for (size_t other = 0; other < kAxisCount; ++other)
    if ((chosen >> other & 1) && conflict(axis, value, other, point[other])) return false;
  return true;
}

// The number of missing pairs that the value would form with the values chosen so far.
size_t LawGrid::uncovered(const GridPoint& point, size_t chosen, size_t axis, size_t value) {
  size_t gain = 0;
  for (size_t other = 0; other < kAxisCount; ++other)
    if ((chosen >> other & 1) && drawn(axis, value, other, point[other]) == kMissing) ++gain;
  return gain;
}

GridPoint LawGrid::draw_point() {
  GridPoint point{};
  size_t chosen = 0;
  const auto choose = [&](size_t axis, size_t value) {
    point[axis] = static_cast<uint8_t>(value);
    chosen |= size_t{1} << axis;
  };
  if (pairs_missing_ > 0) {
    // Begins with the first missing pair, and adds as many other missing pairs as possible.
    const auto at = static_cast<size_t>(std::ranges::find(pairs_, kMissing) - pairs_.begin());
    for (const size_t flat : {at / values_, at % values_}) {
      const auto axis =
          static_cast<size_t>(std::ranges::upper_bound(begin_, flat) - begin_.begin()) - 1;
      choose(axis, flat - begin_[axis]);
    }
  }
  for (const int64_t drawn_axis : random_.permutation(static_cast<int64_t>(kAxisCount))) {
    const auto axis = static_cast<size_t>(drawn_axis);
    if (chosen >> axis & 1) continue;
    if (pairs_missing_ == 0 && kAxes[axis].at_rest > 0 && random_.chance(kAxes[axis].at_rest) &&
        possible(point, chosen, axis, 0)) {
      choose(axis, 0);
      continue;
    }
    std::vector<size_t> best;
    size_t most = 0;
    for (size_t value = 0; value < kAxes[axis].values.size(); ++value) {
      if (!possible(point, chosen, axis, value)) continue;
      const size_t gain = pairs_missing_ > 0 ? uncovered(point, chosen, axis, value) : 0;
      if (gain > most) best.clear();
      most = std::max(most, gain);
      if (gain == most) best.push_back(value);
    }
    choose(axis, random_.pick(best));
  }
  return point;
}

void LawGrid::count(const GridPoint& point) {
  tally_.count(point);
  for (size_t a = 0; a < kAxisCount; ++a)
    for (size_t b = a + 1; b < kAxisCount; ++b) {
      uint8_t& state = drawn(a, point[a], b, point[b]);
      if (state == kMissing) {
        state = kDrawn;
        --pairs_missing_;
      }
    }
}

Descriptor LawGrid::next() {
  for (;;) {
    const GridPoint point = draw_point();
    Descriptor descriptor = descriptor_at(point, random_, work_);
    const uint64_t seed = std::exchange(descriptor.seed, 0);
    if (!seen_.insert(std::hash<std::string>{}(to_string(descriptor))).second) continue;
    descriptor.seed = seed;
    count(point);
    return descriptor;
  }
}

std::vector<std::string> LawGrid::missing_pairs() const {
  std::vector<std::string> missing;
  const auto named = [&](size_t flat) {
    const auto axis =
        static_cast<size_t>(std::ranges::upper_bound(begin_, flat) - begin_.begin()) - 1;
    return std::string(kAxes[axis].name) + "=" +
           std::string(kAxes[axis].values[flat - begin_[axis]]);
  };
  for (size_t i = 0; i < pairs_.size(); ++i)
    if (pairs_[i] == kMissing)
      missing.push_back(named(i / values_) + " with " + named(i % values_));
  return missing;
}

std::string LawGrid::table() const {
  return tally_.table() + "pairs of values: " + std::to_string(pairs_all_ - pairs_missing_) +
         " of " + std::to_string(pairs_all_) +
         "\ndistinct problems: " + std::to_string(distinct()) + "\n";
}

}  // namespace check
