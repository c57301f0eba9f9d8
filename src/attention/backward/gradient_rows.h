#pragma once
// Rows of queries, d_output and outputs in the form that the products of the backward pass read.
// The code is in the header because it is a template over E.
#include "attention/backward/backward.h"
#include "attention/tiles/tile_rows.h"

namespace rapt {

// Rows of a work unit as the sums over queries read them, if they are packed.
struct GradientRowPlaces {
  Place<std::byte> query;     // [unit queries][head_dim] of the route's elements
  Place<std::byte> position;  // the same for products with key_rows, if biases are added
  Place<std::byte> d_output;  // [unit queries][value_dim], the same of d_output

  template <class E>
  void reserve(GradientScratch<E>& scratch) {
    const WantedGradients& wanted = scratch.wanted;
    const int64_t query_bytes = scratch.packed_bytes(scratch.problem.head_dim);
    if (wanted.key || wanted.key_rows) scratch.worker.place(query, {scratch.unit, query_bytes});
    if (wanted.key_rows && scratch.problem.rows.adds_biases)
      scratch.worker.place(position, {scratch.unit, query_bytes});
    if (wanted.value || wanted.value_rows || scratch.kernels.normalizer.settle)
      scratch.worker.place(d_output,
                           {scratch.unit, scratch.packed_bytes(scratch.problem.value_dim)});
  }
};

template <class E>
class GradientRows {
 public:
  GradientRows(const BackwardCall<E>& call, const ScoreTiles<E>& tiles)
      : call_(call), p_(call.problem()), kernels_(call.forward.kernels), tiles_(tiles) {}

  // The route that packs a tensor's rows for the products; d_output may be wider than the inputs.
  const RouteKernels<E>& route_of(const Operand& rows) const noexcept {
    return kernels_.route.rounds() ? kernels_.route : widening(rows);
  }
  // The route that converts a tensor's elements to E.
  const RouteKernels<E>& widening(const Operand& rows) const noexcept {
    return *kernels_.table.fma[static_cast<int>(rows.dtype)];
  }

  // Rows of queries as the sums over queries read them: in the caller's memory, or packed.
  Rows summed_rows(const RouteKernels<E>& route, const RowsAt& rows, int64_t count, int64_t dims,
                   const Place<std::byte>& place) const noexcept {
    if (route.values_in_place && rows.dim_stride == 1 &&
        !far_apart(rows.row_stride, rows.dtype, dims))
      return {rows.data, rows.row_stride};
    std::byte* const packed = tiles_.at(place);
    route.pack_rows(rows.data, rows.row_stride, rows.dim_stride, count, dims, packed);
    return {packed, packed_stride(dims, kernels_.route.step)};
  }

  // Rows of d_output in the caller's memory, and as the sums over queries read them.
  RowsAt d_output_at(Positions at) const noexcept {
    const Operand& d_output = call_.inputs.d_output;
    return {tiles_.query_row(d_output, at.start), d_output.dtype, d_output.row_stride,
            d_output.dim_stride};
  }
  Rows d_output_rows(Positions at) const noexcept {
    return summed_rows(route_of(call_.inputs.d_output), d_output_at(at), at.count, p_.value_dim,
                       call_.layout.rows.d_output);
  }
  // Finds the rows of a tile, of queries and of d_output, that need ExactRows.
  void find_outside_rows(QueryTile<E>& tile, std::byte* transformed) const noexcept {
    tiles_.find_outside_rows(tile, transformed);
    tile.d_output_outside =
        tiles_.exact()
            .find(d_output_at(tile.positions), tile.positions.count, p_.value_dim)
            .words[0];
  }

 private:
  const BackwardCall<E>& call_;
  const Problem& p_;
  const Kernels<E>& kernels_;
  const ScoreTiles<E>& tiles_;
};

}  // namespace rapt
