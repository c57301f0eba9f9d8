#pragma once
// s' = s + table[bucket(j - i)], a table per head. The buckets are those of T5's own code; with
// direction = past, keys after the query share its bucket.
#include <algorithm>

#include "check/reference/score_formula.h"

namespace check {

struct T5BiasReference {
  static constexpr std::string_view kName = "t5_bias";
  AnchoredPositions positions;
  int64_t max_distance;
  bool past;

  explicit T5BiasReference(const VariantArguments& arguments)
      : positions(arguments),
        max_distance(arguments.integers.at("max_distance")),
        past(arguments.words.at("direction") == "past") {}

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>& own, const PairPlace&) const {
    return {s + own[0], N(1), {N(1)}};
  }

  int64_t entry(const PairPlace& place, int64_t buckets) const {
    const int64_t ahead = positions.ahead(place), half = past ? buckets : buckets / 2;
    const int64_t first = !past && ahead > 0 ? half : 0;
    const int64_t n = past ? std::max<int64_t>(-ahead, 0) : std::abs(ahead);
    const int64_t exact = half / 2;
    if (n < exact) return first + n;
    const double grown = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                         std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
    const auto far = static_cast<int64_t>(grown * static_cast<double>(half - exact));
    return first + std::min(exact + far, half - 1);
  }
};

}  // namespace check
