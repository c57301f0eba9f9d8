#pragma once
// Sums over pairs of the same distance, for the gradients of distance tables (rapt/relative.h):
//
//   d_key_rows[c] = scale sum of dZ_ij query_i,   d_value_rows[c] = sum of weights_ij d_output_i
//
// over the pairs (i, j) with table row c. Each chunk of keys has a window of such sums for a step
// (backward_plan.h). The code is in the header because it is a template over E.
#include "attention/backward/backward.h"
#include "attention/backward/gradient_keys.h"
#include "attention/tiles/score_tiles.h"

namespace rapt {

// Sums for the rows [first, first + count) of a table.
template <class E>
struct DistanceWindow {
  E* data = nullptr;  // [count][dims]; null: not wanted
  int64_t first = 0, dims = 0;

  E* row(int64_t row) const noexcept { return data + (row - first) * dims; }
};
template <class E>
struct DistanceWindows {
  DistanceWindow<E> key, query, value;
};

// A query tile and keys of the backward pass.
template <class E>
struct DistanceTile {
  Positions queries, keys;
  int vectors;
  const uint64_t* allowed;  // [keys]: which queries may attend; null: all
};

template <class E>
class DistanceSums {
 public:
  DistanceSums(const BackwardCall<E>& call, ScoreTiles<E>& tiles)
      : kernels_(call.forward.kernels),
        tiles_(tiles),
        d_key_t_(call.forward.layout.relative.key_t) {}

  // Sums the pairs of a tile [keys][queries] that share a table row, query by query.
  DistanceSpan sum_by_distance(const DistanceTile<E>& of, const E* tile) noexcept {
    return tiles_.relative().take(tile, of.vectors, of.queries, of.keys);
  }

  // Adds the sums by distance, times rows of the tile's queries, to the window, from the work
  // unit's `offset` on.
  void add_rows(const DistanceTile<E>& of, const DistanceSpan& span,
                const DistanceWindow<E>& window, const Rows& rows, int64_t offset) noexcept {
    const int64_t width = of.vectors * kernels_.table.lanes;
    const std::byte* const first = rows.data + offset * rows.stride * kernels_.route.element_size;
    add(span, width, {first, rows.stride}, of.queries.count, window, [&] {
      return tiles_.relative().bits_of_rows(span, width, of.queries, of.keys, of.allowed);
    });
  }

  // Adds the contribution of a tile [keys][queries] of score gradients to the gradients of
  // query_rows and, through query_rows, of the keys: d_query_rows[c] = scale sum of dZ_ij key_j,
  // d_key_j = scale sum of dZ_ij query_rows[c]. `d_key`: the gradient of the tile's first key;
  // null: not wanted.
  void add_query_rows(const DistanceTile<E>& of, const E* tile, const Rows& keys,
                      const DistanceWindow<E>& window, E* d_key, int64_t d_key_stride,
                      int64_t head_dim) noexcept {
    const int64_t width = of.vectors * kernels_.table.lanes, lanes = kernels_.table.lanes;
    RelativeTiles<E>& relative = tiles_.relative();
    relative.for_each_group(of.keys, [&](Positions group, int64_t at) {
      const uint64_t* const allowed = of.allowed ? of.allowed + at : nullptr;
      const DistanceSpan span = relative.take_of_keys(tile + at * width, width, of.queries, group);
      if (window.data)
        add(span, lanes, {keys.data + at * keys.stride * kernels_.route.element_size, keys.stride},
            group.count, window,
            [&] { return relative.bits_of_keys(span, of.queries, group, allowed); });
      if (!d_key) return;
      E* const d_key_t = tiles_.at(d_key_t_);
      std::fill_n(d_key_t, head_dim * lanes, E(0));
      relative.add_query_rows(span, of.queries, group, allowed, d_key_t);
      for (int64_t j = 0; j < group.count; ++j)
        for (int64_t d = 0; d < head_dim; ++d)
          d_key[(at + j) * d_key_stride + d] += d_key_t[d * lanes + j];
    });
  }

 private:
  // window += by_row() [span.rows][lanes] times `count` rows, one per lane.
  template <class Bits>
  void add(const DistanceSpan& span, int64_t lanes, const Rows& rows, int64_t count,
           const DistanceWindow<E>& window, const Bits& bits) noexcept {
    const RouteKernels<E>& route = kernels_.route;
    // 0 * NaN is NaN: see Forward::add_values().
    const bool finite = route.all_finite(rows.data, rows.stride, count, window.dims);
    const GradientSpan<E> of_tile{tiles_.relative().by_row(span, lanes),
                                  lanes,
                                  rows.data,
                                  rows.stride,
                                  count,
                                  finite ? nullptr : bits()};
    const auto& [add_all, add_of_bits] = route.key_gradients;
    (finite ? add_all : add_of_bits)(&of_tile, 1, span.rows, window.dims, window.row(span.low),
                                     window.dims);
  }

  const Kernels<E>& kernels_;
  ScoreTiles<E>& tiles_;
  const Place<E>& d_key_t_;  // [head_dim][lanes]; shares memory with keys that are no longer read
};

}  // namespace rapt
