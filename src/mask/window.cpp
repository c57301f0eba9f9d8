// The sliding window; the formula is in the header. Bound: values[0], values[1] = how many
// positions to the left and right of its own position i a query may attend to (kUnbounded: all).
#include "rapt/mask/window.h"

#include <algorithm>

#include "mask/anchored.h"
#include "mask/steps.h"

namespace rapt {
namespace {

constexpr Range kReach{-1, 9007199254740992.0};

constexpr Parameter kParameters[] = {
    parameter<Window, &Window::left>(
        "left", "neighbours to the left that a query may attend to; -1: all", kReach),
    parameter<Window, &Window::right>(
        "right", "neighbours to the right that a query may attend to; -1: all", kReach),
    parameter<Window, &Window::anchor>("anchor", "which corner of the matrix the window starts at",
                                       kAnyNumber, kAnchorNames),
    parameter<Window, &Window::lengths>(
        "lengths", "int64 [B]: where the bottom-right corner of each batch is, instead of k_len"),
};

constexpr const char* kExamples[] = {"4,0", "3,2", "right=2", "1,0,bottom-right"};

}  // namespace

const Declaration Window::kDeclaration = {
    "window", "a query attends to the keys near its own position",
    "Beltagy et al. 2020, arXiv:2004.05150, section 3.1", kParameters, kExamples};

void Window::check(Shape leading, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  check_anchor("mask window: lengths", anchor, lengths, leading, k_len);
}

void Window::bind(const Head& head, BoundMask* bound) const noexcept {
  const int64_t o = offset_of(anchor, lengths, head, *bound);
  bound->values[0] = left < 0 ? kUnbounded : left - o;
  bound->values[1] = right < 0 ? kUnbounded : right + o;
}

KeyRange Window::key_range(const BoundMask& bound, Positions queries) const noexcept {
  return {std::clamp<int64_t>(queries.start - bound.values[0], 0, bound.k_len),
          std::clamp<int64_t>(queries.last() + bound.values[1] + 1, 0, bound.k_len)};
}

Cover Window::cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept {
  const int64_t left_reach = bound.values[0], right_reach = bound.values[1];
  if (keys.start > queries.last() + right_reach || keys.last() < queries.start - left_reach)
    return Cover::none;
  if (keys.last() <= queries.start + right_reach && keys.start >= queries.last() - left_reach)
    return Cover::all;
  return Cover::some;
}

void Window::exclude(const BoundMask& bound, Positions queries, Positions keys,
                     uint64_t* bits) const noexcept {
  for (int64_t j = 0; j < keys.count; ++j) {
    // The queries from p - right to p + left may attend to key p.
    const int64_t p = keys[j] - queries.start;
    bits[j] &= low_bits(queries_before(p + bound.values[0] + 1, queries)) &
               ~low_bits(queries_before(p - bound.values[1], queries));
  }
}

}  // namespace rapt
