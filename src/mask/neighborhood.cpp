// Neighbourhoods of points of a grid; the rule is in the header, the grid in grid.h.
// Bound: values[0] = o; values[1] = the length of the slowest dimension.
#include "rapt/mask/neighborhood.h"

#include <algorithm>
#include <string>

#include "mask/grid.h"
#include "mask/steps.h"

namespace rapt {
namespace {

constexpr Range kWindow{1, 9007199254740992.0};  // 2^53: exact as a double
// The faster dimensions are bounded, so that no product of points and strides overflows.
constexpr Range kSlowest{0, 9007199254740992.0}, kFaster{1, 1048576};

constexpr Parameter kParameters[] = {
    parameter<Neighborhood, &Neighborhood::window1>(
        "window1", "points that a query may attend to in dimension 1, the slowest; odd", kWindow,
        {}, true),
    parameter<Neighborhood, &Neighborhood::length1>(
        "length1", "points of dimension 1; 0: as many as k_len needs", kSlowest),
    parameter<Neighborhood, &Neighborhood::window2>(
        "window2", "points that a query may attend to in dimension 2; odd", kWindow),
    parameter<Neighborhood, &Neighborhood::length2>("length2", "points of dimension 2", kFaster),
    parameter<Neighborhood, &Neighborhood::window3>(
        "window3", "points that a query may attend to in dimension 3; odd", kWindow),
    parameter<Neighborhood, &Neighborhood::length3>("length3", "points of dimension 3", kFaster),
    parameter<Neighborhood, &Neighborhood::anchor>(
        "anchor", "which corner of the matrix the grid starts at", kAnyNumber, kAnchorNames),
};

constexpr const char* kExamples[] = {"7",           "3,0,5,4", "5,0,3,7,bottom-right",
                                     "3,0,3,2,3,3", "1,0,5,6", "3,0,1,1,3,5"};

Grid grid_of(const Neighborhood& mask, const BoundMask& bound) noexcept {
  Grid grid{{bound.values[1], mask.length2, mask.length3},
            {mask.window1, mask.window2, mask.window3},
            {}};
  // Lines and images take the last dimensions, so that a row is more than a point.
  while (grid.length[2] == 1 && (grid.length[0] != 1 || grid.length[1] != 1)) {
    std::copy_backward(grid.length, grid.length + 2, grid.length + 3);
    std::copy_backward(grid.window, grid.window + 2, grid.window + 3);
    grid.length[0] = grid.window[0] = 1;
  }
  grid.stride[2] = 1;
  for (int d = 2; d > 0; --d) grid.stride[d - 1] = grid.stride[d] * grid.length[d];
  return grid;
}

// The boxes of the queries that stand within the grid.
Boxes boxes_of(const Grid& grid, const BoundMask& bound, Positions queries) noexcept {
  const int64_t o = bound.values[0];
  return grid.cut(std::max<int64_t>(queries.start + o, 0),
                  std::min(queries.last() + o + 1, grid.size()));
}

bool overlap(const Box& a, const Box& b) noexcept {
  for (int d = 0; d < kGridDims; ++d)
    if (a[d].begin >= b[d].end || b[d].begin >= a[d].end) return false;
  return true;
}

bool contains(const Box& outer, const Box& inner) noexcept {
  for (int d = 0; d < kGridDims; ++d)
    if (inner[d].begin < outer[d].begin || inner[d].end > outer[d].end) return false;
  return true;
}

}  // namespace

const Declaration Neighborhood::kDeclaration = {
    "neighborhood", "a query attends to the nearest points of a grid of 1, 2 or 3 dimensions",
    "Hassani et al. 2023, arXiv:2204.07143, equations 2 to 4", kParameters, kExamples};

void Neighborhood::check(Shape, int64_t, int64_t k_len) const {
  check_parameters(kDeclaration, this);
  for (const int64_t window : {window1, window2, window3})
    if (window % 2 == 0)
      throw Error(ErrorCode::argument, "mask neighborhood: a window of " + std::to_string(window) +
                                           " points; expected an odd number, the query's own point "
                                           "and as many on each side");
  int64_t points = 0;
  if (length1 != 0 &&
      (__builtin_mul_overflow(length2 * length3, length1, &points) || points != k_len))
    throw Error(ErrorCode::argument,
                "mask neighborhood: a grid of " + std::to_string(length1) + " x " +
                    std::to_string(length2) + " x " + std::to_string(length3) +
                    " points for k_len = " + std::to_string(k_len) +
                    "; expected as many points as keys, or length1 = 0 for as many as they need");
}

void Neighborhood::bind(const Head& head, BoundMask* bound) const noexcept {
  const int64_t unit = length2 * length3;
  bound->values[0] = offset_of(anchor, *bound);
  // Not length1: sequences of a packed call may have fewer keys than check() sees.
  bound->values[1] = (head.k_len + unit - 1) / unit;
}

KeyRange Neighborhood::key_range(const BoundMask& bound, Positions queries) const noexcept {
  const Grid grid = grid_of(*this, bound);
  const Boxes boxes = boxes_of(grid, bound, queries);
  KeyRange hull{bound.k_len, 0};
  for (int i = 0; i < boxes.count; ++i) {
    Box windows;
    grid.united(boxes.boxes[i], windows);
    int64_t first = 0, last = 0;
    for (int d = 0; d < kGridDims; ++d) {
      first += windows[d].begin * grid.stride[d];
      last += (windows[d].end - 1) * grid.stride[d];
    }
    hull = {std::min(hull.begin, first), std::max(hull.end, last + 1)};
  }
  return {hull.begin, std::clamp(hull.end, hull.begin, bound.k_len)};
}

KeyRange Neighborhood::next_run(const BoundMask& bound, Positions queries,
                                int64_t from) const noexcept {
  const Grid grid = grid_of(*this, bound);
  const Boxes boxes = boxes_of(grid, bound, queries);
  KeyRange nearest{bound.k_len, bound.k_len};
  for (int i = 0; i < boxes.count; ++i) {
    Box windows;
    grid.united(boxes.boxes[i], windows);
    const KeyRange run{grid.next_run(windows, from)};
    if (run.begin >= run.end) continue;
    const KeyRange part = part_of_run(run, from, bound.k_len);
    if (part.begin < nearest.begin || (part.begin == nearest.begin && part.end > nearest.end))
      nearest = part;
  }
  return nearest;
}

Cover Neighborhood::cover(const BoundMask& bound, Positions queries,
                          Positions keys) const noexcept {
  const Grid grid = grid_of(*this, bound);
  const Boxes points = boxes_of(grid, bound, queries);
  const Boxes of_keys = grid.cut(keys.start, std::min(keys.last() + 1, grid.size()));
  const int64_t o = bound.values[0];
  bool any = false, all = queries.start + o >= 0 && queries.last() + o < grid.size();
  for (int i = 0; i < points.count && (all || !any); ++i) {
    Box united, common;
    grid.united(points.boxes[i], united);
    grid.common(points.boxes[i], common);
    for (int j = 0; j < of_keys.count; ++j) {
      any = any || overlap(united, of_keys.boxes[j]);
      all = all && contains(common, of_keys.boxes[j]);
    }
  }
  return !any ? Cover::none : all ? Cover::all : Cover::some;
}

void Neighborhood::exclude(const BoundMask& bound, Positions queries, Positions keys,
                           uint64_t* bits) const noexcept {
  constexpr int kLast = kGridDims - 1;
  const Grid grid = grid_of(*this, bound);
  queries.start += bound.values[0];
  GridRow rows[64];  // of the queries
  int count = 0;
  for_each_row(grid, queries, [&](const GridRow& row) { rows[count++] = row; });
  for_each_row(grid, keys, [&](const GridRow& row) {
    // Rows of queries whose windows hold this row of keys.
    const KeyRange planes = grid.holders(0, row.point[0]), lines = grid.holders(1, row.point[1]);
    int near[64], nearby = 0;
    for (int r = 0; r < count; ++r) {
      const int64_t* const x = rows[r].point;
      near[nearby] = r;
      nearby +=
          planes.begin <= x[0] && x[0] < planes.end && lines.begin <= x[1] && x[1] < lines.end;
    }
    for (int64_t j = 0; j < row.count; ++j) {
      const KeyRange holders = grid.holders(kLast, row.point[kLast] + j);
      uint64_t allowed = 0;
      for (int n = 0; n < nearby; ++n) {
        const GridRow& of = rows[near[n]];
        const int64_t x = of.point[kLast];
        const int64_t begin = std::max<int64_t>(holders.begin - x, 0);
        const int64_t end = std::min(holders.end - x, of.count);
        if (begin < end) allowed |= low_bits(end - begin) << (of.first + begin);
      }
      bits[row.first + j] &= allowed;
    }
  });
}

}  // namespace rapt
