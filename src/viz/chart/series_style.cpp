#include "viz/chart/series_style.h"

#include <iterator>

#include "viz/page_style.h"

namespace rapt::viz {
namespace {

constexpr Color kCurveColors[] = {{0x00, 0x72, 0xb2}, {0xd5, 0x5e, 0x00}, {0x00, 0x9e, 0x73},
                                  {0xcc, 0x79, 0xa7}, {0xe6, 0x9f, 0x00}, {0x56, 0xb4, 0xe9}};
constexpr size_t kColors = std::size(kCurveColors), kMarkers = 7, kPatterns = 7;
// Their numbers have no common factor, so pairs repeat after all of them only.
static_assert(kColors * kMarkers == kMaxSeries && kColors * kPatterns == kMaxSeries);

}  // namespace

std::vector<double> dashes_of(size_t pattern) {
  const std::vector<double> kDashes[kPatterns] = {
      {}, {6, 4}, {0.1, 4}, {9, 4, 0.1, 4}, {12, 4}, {3, 4}, {9, 4, 0.1, 4, 0.1, 4}};
  return kDashes[pattern];
}

std::vector<SeriesStyle> series_styles(const std::vector<Series>& series) {
  std::vector<SeriesStyle> styles;
  size_t colored = 0, with_dots = 0, without = 0, estimates = 0;
  for (const Series& one : series) {
    SeriesStyle style{one.estimate ? kFaintInk : kCurveColors[colored++ % kColors], {}, 0};
    if (one.dots) {
      style.marker = static_cast<MarkerShape>(with_dots++ % kMarkers);
      if (one.estimate) style.pattern = 1;
    } else if (one.estimate) {
      style.pattern = 1 + estimates++ % (kPatterns - 1);
    } else {
      style.pattern = without++ % kPatterns;
    }
    styles.push_back(style);
  }
  return styles;
}

}  // namespace rapt::viz
