#pragma once
// Grids of up to three dimensions whose points are the positions of a sequence, the last dimension
// without a gap, and windows over them that keep their size at the edges.
//
// A run of positions is cut into boxes, products of one interval per dimension: at most a part of a
// row, rows, planes, rows, and a part of a row. The windows of a product of intervals are a product
// of intervals, too: those of all its points together, and those that all its points have in
// common. So questions about tiles need no loop over their points.
#include <algorithm>

#include "rapt/mask/mask.h"

namespace rapt {

inline constexpr int kGridDims = 3;
inline constexpr int kMostBoxes = 2 * kGridDims - 1;

using Box = KeyRange[kGridDims];  // an interval of each dimension

struct Boxes {
  Box boxes[kMostBoxes];
  int count = 0;
};

struct Grid {
  int64_t length[kGridDims], window[kGridDims];
  int64_t stride[kGridDims];  // positions from one point to the next of the same dimension

  int64_t size() const noexcept { return length[0] * stride[0]; }

  void point_of(int64_t position, int64_t* point) const noexcept {
    for (int d = 0; d < kGridDims; ++d) {
      point[d] = position / stride[d];
      position -= point[d] * stride[d];
    }
  }

  // Where the window of the point x of a dimension begins and ends.
  int64_t begin(int d, int64_t x) const noexcept {
    const int64_t most = std::max<int64_t>(length[d] - window[d], 0);
    return std::clamp<int64_t>(x - window[d] / 2, 0, most);
  }
  int64_t end(int d, int64_t x) const noexcept {
    return std::min(begin(d, x) + window[d], length[d]);
  }

  // The points of a dimension whose windows hold y.
  KeyRange holders(int d, int64_t y) const noexcept {
    const int64_t w = window[d], n = length[d], half = w / 2;
    return {y < w ? 0 : y - half, y >= n - w ? n : y + half + 1};
  }

  // The windows of all points of a box together, and the part that they have in common.
  void united(const Box& points, Box& windows) const noexcept {
    for (int d = 0; d < kGridDims; ++d)
      windows[d] = {begin(d, points[d].begin), end(d, points[d].end - 1)};
  }
  void common(const Box& points, Box& windows) const noexcept {
    for (int d = 0; d < kGridDims; ++d)
      windows[d] = {begin(d, points[d].end - 1), end(d, points[d].begin)};
  }

  // The boxes of the positions [begin, end) within the grid.
  Boxes cut(int64_t begin, int64_t end) const noexcept {
    Boxes cut;
    while (begin < end) {
      int d = 0;  // the slowest dimension of which whole units follow
      while (begin % stride[d] != 0 || begin + stride[d] > end) ++d;
      int64_t units = (end - begin) / stride[d];
      if (d > 0) units = std::min(units, (stride[d - 1] - begin % stride[d - 1]) / stride[d]);
      int64_t point[kGridDims];
      point_of(begin, point);
      Box& box = cut.boxes[cut.count++];
      for (int e = 0; e < kGridDims; ++e)
        box[e] = e < d    ? KeyRange{point[e], point[e] + 1}
                 : e == d ? KeyRange{point[e], point[e] + units}
                          : KeyRange{0, length[e]};
      begin += units * stride[d];
    }
    return cut;
  }

  // The first run of positions of a box that ends after `from`; empty: there is none. It may end
  // beyond the positions that exist.
  KeyRange next_run(const Box& box, int64_t from) const noexcept {
    int64_t point[kGridDims];
    point_of(from, point);
    int d = 0;
    while (d < kGridDims && box[d].begin <= point[d] && point[d] < box[d].end) ++d;
    if (d < kGridDims) {
      if (point[d] >= box[d].end) {  // the next one of a slower dimension
        do {
          if (--d < 0) return {0, 0};
        } while (point[d] + 1 >= box[d].end);
        ++point[d++];
      }
      for (; d < kGridDims; ++d) point[d] = box[d].begin;
    }
    // The run fills the fastest dimension, and goes on in the next one if it fills all of it.
    int fills = kGridDims - 1;
    while (fills > 0 && box[fills].begin == 0 && box[fills].end == length[fills]) --fills;
    int64_t end = box[fills].end * stride[fills];
    for (int e = 0; e < fills; ++e) end += point[e] * stride[e];
    int64_t begin = 0;
    for (int e = 0; e < kGridDims; ++e) begin += point[e] * stride[e];
    return {begin, end};
  }
};

// Part of a row of a grid, and where it stands among some positions.
struct GridRow {
  int64_t point[kGridDims];  // its first one
  int64_t count;             // its points
  int64_t first;             // of them among the positions
};

// Calls visit(row) for the parts of rows of which `at` consists, in order. Positions beyond the
// grid are left out. With steps other than 1 each position is a part of its own.
template <class Visit>
void for_each_row(const Grid& grid, Positions at, const Visit& visit) noexcept {
  constexpr int kLast = kGridDims - 1;
  const int64_t size = grid.size();
  for (int64_t i = 0; i < at.count;) {
    GridRow row{{}, 1, i};
    const int64_t position = at[i];
    if (position >= 0 && position < size) {
      grid.point_of(position, row.point);
      if (at.step == 1) row.count = std::min(at.count - i, grid.length[kLast] - row.point[kLast]);
      visit(row);
    }
    i += row.count;
  }
}

}  // namespace rapt
