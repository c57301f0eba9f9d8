#pragma once
// Products with distance tables (rapt/relative.h).
//
// This room, src/attention/relative, has these products. In: query or key lanes [dims][lanes] and a
// span of distances. Out: a product per distance, or sums over the rows of a span. Table rows are
// multiplied as if they were keys; distances that share a row are multiplied once. It may use call,
// plan, rows and the kernel table. The code is in the header because it is a template over E.
#include "attention/plan/forward_call.h"
#include "attention/relative/distance_rows.h"

namespace rapt {

// Scratch of products with distance tables.
template <class E>
struct RelativePlaces {
  CallPlace<int64_t> starts;  // [distances]: the first distance of each row of a log scale
  Place<E> by_distance;       // [distances of a tile + lanes][tile queries]
  Place<E> rows;              // [distances of a tile][largest dims], of tables not read in place
  Place<uint64_t> bits;       // [distances of a tile]
  Place<E> unused_max;        // [tile queries]
  // For keys as lanes, where there are query_rows:
  Place<E> by_query;  // [2 tile queries + 2 lanes][lanes]
  Place<E> key_t;     // [head_dim][lanes]

  void reserve(ScratchPlan<E>& plan) {
    const Problem& p = plan.problem;
    if (!p.relative.tables()) return;
    const int64_t lanes = plan.tiling.lanes, distances = plan.tiling.block_keys + plan.tile;
    plan.call.place_if(p.relative.log_scale(), starts, {p.relative.distances});
    plan.worker.place(by_distance, {distances + lanes, plan.tile});
    plan.worker.place(rows, {distances, std::max(p.head_dim, p.value_dim)});
    plan.worker.place(bits, {distances});
    plan.worker.place(unused_max, {plan.tile});
    if (!p.relative.query) return;
    plan.worker.place(by_query, {2 * (plan.tile + lanes), lanes});
    plan.worker.place(key_t, {p.head_dim, lanes});
  }
};

// Writes the first distance of each row of a log scale, once per call.
template <class E>
void write_relative(const ForwardCall<E>& call, const RelativePlaces<E>& places) noexcept {
  const Relative& r = call.problem.relative;
  if (!r.log_scale()) return;
  int64_t* const starts = call.at(places.starts);
  for (int64_t row = 0; row < r.distances; ++row)
    starts[row] = first_distance(*r.given, r.distances, row);
}

// The distance table of a head.
struct DistanceTable {
  const Operand* rows;
  std::byte* begin;  // null: no table
  int64_t dims;
  int64_t finite_begin, finite_end;  // rows that are known to be finite
};

template <class E>
class DistanceProducts {
 public:
  DistanceProducts(const ForwardCall<E>& call, const RelativePlaces<E>& places,
                   std::byte* scratch) noexcept
      : p_(call.problem), kernels_(call.kernels), places_(places), scratch_(scratch) {
    const Relative& relative = call.problem.relative;
    if (relative.tables())
      rows_ = DistanceRows(*relative.given, relative.distances,
                           places.starts.in_or_null(call.workspace));
  }

  // The table of a head; without data if `there` is false.
  DistanceTable table(bool there, const Operand& rows, int64_t dims,
                      const int64_t* index) const noexcept {
    return {&rows, there ? rows.at(rows.offset_of(index, p_.leading_rank)) : nullptr, dims, 0, 0};
  }
  const DistanceRows& rows() const noexcept { return rows_; }
  int64_t width_of(int vectors) const noexcept { return vectors * kernels_.table.lanes; }
  template <class T>
  T* at(const Place<T>& place) const noexcept {
    return place.in(scratch_);
  }

  // [distances][lanes] E, for the distances of the span.
  E* by_distance() const noexcept { return at(places_.by_distance); }
  // [span.rows][lanes] of by_distance(), after gather().
  const E* by_row(const DistanceSpan& span, int64_t lanes) const noexcept {
    return by_distance() + span.clamped * lanes;
  }

  // by_distance() = the products of tile_t [dims][lanes] with the row of each distance.
  void multiply(const DistanceTable& table, const void* tile_t, int vectors,
                const DistanceSpan& span) const noexcept {
    const int64_t lanes = width_of(vectors);
    E* const out = by_distance();
    const DenseRows<E> rows = rows_at(table, span.low, span.rows);
    kernels_.route.products[vectors - 1].scores(tile_t, rows.data, rows.stride, span.rows,
                                                table.dims, E(1), out + span.clamped * lanes,
                                                at(places_.unused_max));
    if (span.one_row()) return;
    // Backwards, because the row of a distance never comes after the distance.
    int64_t at = span.clamped + span.rows - 1, row = span.low + span.rows - 1;
    for (int64_t x = span.count - 1; x > span.clamped; --x) {
      while (row > span.low && span.first + x < rows_.start(row)) --row, --at;
      if (at == x) break;  // every distance before this one has its own row
      std::copy_n(out + at * lanes, lanes, out + x * lanes);
    }
    for (int64_t x = 0; x < span.clamped; ++x)
      std::copy_n(out + span.clamped * lanes, lanes, out + x * lanes);
  }

  // Turns by_distance() into by_row(): sums over the distances of each row.
  void gather(const DistanceSpan& span, int64_t lanes) const noexcept {
    E* const out = by_distance();
    const auto add = [&](int64_t from, int64_t to) {
      for (int64_t i = 0; i < lanes; ++i) out[to * lanes + i] += out[from * lanes + i];
    };
    // Sums in the order of the keys, as for every other row, because the number of distances in a
    // tile depends on its other queries.
    for (int64_t x = 0; x < span.clamped; ++x) add(x, x + 1);
    // Forwards, because the row of a distance never comes after the distance.
    int64_t at = span.clamped, row = span.low;
    for (int64_t x = span.clamped + 1; x < span.count; ++x) {
      if (row + 1 >= span.low + span.rows || span.first + x < rows_.start(row + 1)) {
        add(x, at);
        continue;
      }
      ++row, ++at;
      if (at != x) std::copy_n(out + x * lanes, lanes, out + at * lanes);
    }
  }

  // sums_t [dims][lanes] += by_row() times table rows. bits() [span.rows] says for each row which
  // lanes have an unmasked pair.
  template <class Bits>
  void add_rows(DistanceTable& table, const DistanceSpan& span, int vectors, const Bits& bits,
                E* sums_t) const noexcept {
    const int64_t lanes = width_of(vectors);
    // A row without a pair has weight 0, and 0 * NaN would be NaN.
    const bool finite = all_finite(table, span);
    const DenseRows<E> rows = rows_at(table, span.low, span.rows);
    if (finite)
      kernels_.route.products[vectors - 1].output(by_row(span, lanes), rows.data, rows.stride,
                                                  span.rows, table.dims, nullptr, sums_t);
    else
      kernels_.route.output_of_bits(by_row(span, lanes), bits(), rows.data, rows.stride, span.rows,
                                    table.dims, nullptr, lanes, sums_t);
  }

  // The table rows as E: in place, or converted.
  DenseRows<E> rows_at(const DistanceTable& table, int64_t low, int64_t count) const noexcept {
    const Operand& o = *table.rows;
    std::byte* const first = table.begin + low * o.row_stride * size_of(o.dtype);
    const RouteKernels<E>& route = *kernels_.table.fma[static_cast<int>(o.dtype)];
    if (rows_in_place(o, table.dims, route)) return {reinterpret_cast<E*>(first), o.row_stride};
    E* const packed = at(places_.rows);
    route.pack_keys(first, o.row_stride, o.dim_stride, count, table.dims, packed);
    return {packed, table.dims};
  }

  // Scratch for bits() of a tile.
  uint64_t* cleared_bits(const DistanceSpan& span) const noexcept {
    uint64_t* const bits = at(places_.bits);
    std::fill_n(bits, span.rows, uint64_t{0});
    return bits;
  }

 private:
  // Whether all rows of a span are finite. Successive tiles check each row once.
  bool all_finite(DistanceTable& table, const DistanceSpan& span) const noexcept {
    const int64_t begin = span.low, end = span.low + span.rows;
    const auto finite = [&](int64_t from, int64_t to) {
      if (from >= to) return true;
      const DenseRows<E> rows = rows_at(table, from, to - from);
      return kernels_.route.all_finite(rows.data, rows.stride, to - from, table.dims);
    };
    const bool touches = begin <= table.finite_end && end >= table.finite_begin;
    if (!touches) table.finite_begin = table.finite_end = begin;
    if (!finite(begin, std::min(end, table.finite_begin)) ||
        !finite(std::max(begin, table.finite_end), end))
      return false;
    table.finite_begin = std::min(begin, table.finite_begin);
    table.finite_end = std::max(end, table.finite_end);
    return true;
  }

  const Problem& p_;
  const Kernels<E>& kernels_;
  const RelativePlaces<E>& places_;
  std::byte* scratch_;
  DistanceRows rows_;
};

}  // namespace rapt
