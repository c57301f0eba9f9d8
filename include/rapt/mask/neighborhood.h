#pragma once
// Neighbourhood attention: positions are the points of a grid of one, two or three dimensions, the
// last dimension without a gap. With x the point of query i, at position i + o (o as in causal.h),
// and y that of key j, query i may attend to key j where in each dimension
//   start <= y < start + window,   start = x - (window - 1) / 2,
// but at the edges of the grid the window is moved inwards, so that it keeps its size:
//   start at least 0 and at most length - window.
// A window wider than the grid holds all of that dimension. A query beyond the grid attends to
// nothing. Source: Hassani et al. 2023 (NATTEN), arXiv:2204.07143, equations 2 to 4.
//
// Cost, for a tile of q queries in r rows of the grid and k keys: key_range, cover and next_run
// O(1); exclude O(r k).
#include "rapt/mask/mask.h"

namespace rapt {

class Neighborhood final : public Mask {
 public:
  // Dimension 1 is the slowest: an image has rows (1) and columns (2), a video frames (1), rows (2)
  // and columns (3). Unused dimensions have window and length 1. With length1 = 0 the last row (or
  // frame) may be incomplete. Packed calls use length1 = 0: each sequence is a grid of its own.
  int64_t window1 = 0;  // points that a query may attend to in dimension 1; odd
  int64_t length1 = 0;  // points of dimension 1; 0: as many as k_len needs
  int64_t window2 = 1;  // as window1, of dimension 2
  int64_t length2 = 1;  // points of dimension 2
  int64_t window3 = 1;  // as window1, of dimension 3
  int64_t length3 = 1;  // points of dimension 3
  Anchor anchor = Anchor::top_left;

  // A dimension of a grid.
  struct Side {
    int64_t window;  // points that a query may attend to; odd
    int64_t length;  // points of the grid
  };

  Neighborhood() = default;  // without a window; check() rejects it
  explicit Neighborhood(Side line, Anchor at = Anchor::top_left)
      : window1(line.window), length1(line.length), anchor(at) {}
  Neighborhood(Side rows, Side columns, Anchor at = Anchor::top_left)
      : window1(rows.window),
        length1(rows.length),
        window2(columns.window),
        length2(columns.length),
        anchor(at) {}
  Neighborhood(Side frames, Side rows, Side columns, Anchor at = Anchor::top_left)
      : window1(frames.window),
        length1(frames.length),
        window2(rows.window),
        length2(rows.length),
        window3(columns.window),
        length3(columns.length),
        anchor(at) {}

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  KeyRange next_run(const BoundMask& bound, Positions queries,
                    int64_t from) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;
};

}  // namespace rapt
