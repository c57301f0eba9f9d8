#pragma once
// In each dimension of the grid, the point of j is in the window around that of i + o, which is
// moved inwards at the edges. o is as in causal.h.
#include "check/reference/mask_predicate.h"

namespace check {

struct NeighborhoodPredicate : AnchoredPositions {
  static constexpr std::string_view kName = "neighborhood";
  int64_t windows[3], lengths[3];

  explicit NeighborhoodPredicate(const VariantArguments& arguments)
      : AnchoredPositions(arguments),
        windows{arguments.integers.at("window1"), arguments.integers.at("window2"),
                arguments.integers.at("window3")},
        lengths{arguments.integers.at("length1"), arguments.integers.at("length2"),
                arguments.integers.at("length3")} {}

  bool allows(const PairPlace& place, MaskTensors) const {
    int64_t query = place.j - ahead(place), key = place.j;
    const int64_t plane = lengths[1] * lengths[2];
    const int64_t most = (place.k_len + plane - 1) / plane;  // lengths[0], if that is given
    if (query < 0 || query >= most * plane) return false;
    for (int d = 2; d >= 0; --d) {
      const int64_t n = d == 0 ? most : lengths[d];
      if (!in_window(query % n, key % n, windows[d], n)) return false;
      query /= n, key /= n;
    }
    return true;
  }

  static bool in_window(int64_t x, int64_t y, int64_t window, int64_t n) {
    int64_t start = x - (window - 1) / 2;
    if (start + window > n) start = n - window;
    if (start < 0) start = 0;
    return start <= y && y < start + window;
  }
};

}  // namespace check
