#pragma once
// Applies a row transform (cosine, rotary embedding, query bias) to rows of queries or keys.
//
// This room, src/attention/rows, transforms rows. In: rows and a RowTransform (call/problem.h).
// Out: transformed rows and their gradients. It may use call, plan and the kernel table.
//
// Rows are read transposed, [dims][rows], so that the dimensions of a pair are whole vectors; they
// are transformed there and written back as rows. The class is a template, hence in a header.
#include <algorithm>
#include <cmath>

#include "attention/call/problem.h"
#include "attention/rows/rotary_angles.h"
#include "base/scratch_planner.h"

namespace rapt {

// Rows in memory, of any storage type and strides.
struct RowsAt {
  std::byte* data;
  DType dtype;
  int64_t row_stride, dim_stride;

  // The rows from this one on.
  RowsAt from(int64_t row) const noexcept {
    return {data + row * row_stride * size_of(dtype), dtype, row_stride, dim_stride};
  }
};

// Identifies rows: the rows `first_row` + 0, 1, ... of the tensor, for the head at `index`, at the
// positions `at` of their sequence.
struct RowPlace {
  const int64_t* index;
  int rank;  // of `index`
  int64_t first_row;
  Positions at;
};

// Fills in the angle tables of a call.
inline void write_row_transform(const RowTransform& change, int64_t head_dim, std::byte* tables) {
  if (change.rotary) RotaryAngles(*change.rotary, head_dim, change.pairs, tables);
}

// Scratch of row transforms.
template <class E>
struct RowTransformPlaces {
  CallPlace<std::byte> angles;           // tables of RotaryAngles
  CallPlace<std::byte> transformed_key;  // [matrices][k_len][head_dim] of the inputs' dtype
  Place<E> cos_t, sin_t;                 // [pairs][width]
  Place<E> rows_t;                       // [head_dim][width]
  Place<E> given_t;                      // the same, of original rows, for gradients of cosine
  Place<E> inverse;                      // [width]: 1 / length
  Place<E> along;                        // [width]: the factor of the row that a gradient subtracts
  Place<E> longer;                       // [width]: 1; 0 for a row that is divided by epsilon
  Place<E> query_bias;                   // [head_dim]: the bias of the head's query rows

  void reserve(const Problem& p, const KernelTable<E>& table, ScratchPlanner<Per::call>& call,
               ScratchPlanner<Per::worker>& worker) {
    const RowTransform& change = p.rows;
    if (!change.any()) return;
    const int64_t width = int64_t{table.max_vectors} * table.lanes;
    call.place(angles, {static_cast<int64_t>(RotaryAngles::bytes_for(change.pairs))});
    if (change.transforms_key)
      call.place(transformed_key,
                 {change.transformed_matrices, p.k_len, p.head_dim * size_of(p.dtype)});
    if (change.rotary) {
      worker.place(cos_t, {change.pairs, width});
      worker.place(sin_t, {change.pairs, width});
    }
    worker.place(rows_t, {p.head_dim, width});
    if (change.cosine) {
      worker.place(given_t, {p.head_dim, width});
      for (Place<E>* const numbers : {&inverse, &along, &longer}) worker.place(*numbers, {width});
    }
    if (change.adds_biases) worker.place(query_bias, {p.head_dim});
  }
};

template <class E>
class RowTransformer {
 public:
  // `workspace`: of the call; `scratch`: of the worker.
  RowTransformer(const KernelTable<E>& table, const RowTransform& change, int64_t head_dim,
                 const RowTransformPlaces<E>& places, std::byte* workspace,
                 std::byte* scratch) noexcept
      : table_(table),
        change_(change),
        angles_(change.pairs, places.angles.in(workspace)),
        head_dim_(head_dim),
        places_(places),
        scratch_(scratch) {}

  // The most rows that change() accepts.
  int64_t width() const noexcept { return places_.rows_t.columns(); }

  // Transforms rows. `turns`: the positions of the rotation; null: no rotation. `query_bias` is
  // added if it has data. `from` and `to` may be the same.
  void change(const RowsAt& from, const RowPositions* turns, const Operand& query_bias,
              const RowPlace& place, const RowsAt& to) const noexcept {
    E* const rows_t = part(places_.rows_t);
    const int64_t padded = padded_lanes(place);
    load(from, place, padded, rows_t);
    if (change_.cosine) find_lengths(rows_t, nullptr, padded);
    rotate(rows_t, turns, place, false, padded);
    if (query_bias.data) add_query_bias(rows_t, query_bias, place, padded);
    save(place, padded, change_.cosine ? part(places_.inverse) : nullptr, to);
  }

  // Turns the gradient of transformed rows into that of the original rows, times a factor for each
  // lane (null: 1). `given`: the original rows, read only for cosine.
  void transform_back(const RowsAt& from, const RowsAt& given, const RowPositions* turns,
                      const RowPlace& place, const E* factor, const RowsAt& to) const noexcept {
    E* const rows_t = part(places_.rows_t);
    const int64_t padded = padded_lanes(place);
    load(from, place, padded, rows_t);
    transform_back(rows_t, given, turns, place, padded);
    save(place, padded, factor, to);
  }
  // The same for a gradient that is stored transposed, [head_dim][padded].
  void transform_back(E* gradient_t, const RowsAt& given, const RowPositions* turns,
                      const RowPlace& place, int64_t padded) const noexcept {
    rotate(gradient_t, turns, place, true, padded);
    if (change_.cosine) transform_back_lengths(gradient_t, given, place, padded);
  }

 private:
  E* part(const Place<E>& place) const noexcept { return place.in(scratch_); }

  int64_t padded_lanes(const RowPlace& place) const noexcept {
    return (place.at.count + table_.lanes - 1) / table_.lanes * table_.lanes;
  }
  // Reads rows transposed into rows_t [head_dim][padded].
  void load(const RowsAt& from, const RowPlace& place, int64_t padded, E* rows_t) const noexcept {
    table_.fma[static_cast<int>(from.dtype)]->pack_queries(from.data, from.row_stride,
                                                           from.dim_stride, place.at.count,
                                                           head_dim_, E(1), padded, rows_t);
  }
  void save(const RowPlace& place, int64_t padded, const E* factor,
            const RowsAt& to) const noexcept {
    table_.store_rows[static_cast<int>(to.dtype)](part(places_.rows_t), head_dim_, padded, factor,
                                                  ~uint64_t{0}, place.at.count, to.data,
                                                  to.row_stride, to.dim_stride);
  }
  void rotate(E* rows_t, const RowPositions* turns, const RowPlace& place, bool inverse,
              int64_t padded) const noexcept {
    if (!turns) return;
    E *const cos_t = part(places_.cos_t), *const sin_t = part(places_.sin_t);
    angles_.fill(*turns, place.index, place.first_row, place.at, inverse, padded, cos_t, sin_t);
    table_.row_transforms.rotate(rows_t, angles_.dims(), angles_.pairs(), cos_t, sin_t, padded);
  }

  void add_query_bias(E* rows_t, const Operand& query_bias, const RowPlace& place,
                      int64_t padded) const noexcept {
    E* const numbers = part(places_.query_bias);
    const int rank = place.rank;
    table_.fma[static_cast<int>(query_bias.dtype)]->pack_keys(
        query_bias.at(query_bias.offset_of(place.index, rank)), 0, query_bias.dim_stride, 1,
        head_dim_, numbers);
    for (int64_t d = 0; d < head_dim_; ++d)
      for (int64_t x = 0; x < padded; ++x) rows_t[d * padded + x] += numbers[d];
  }

  // inverse = 1 / max(length, epsilon); NaN for a row with a NaN. A row whose squared length, or
  // whose inverse squared, is near the limits of E is scaled by a power of two, together with
  // `gradient_t` (null: none). `inverse` then belongs to the scaled row, and y and dx are
  // unchanged.
  void find_lengths(E* rows_t, E* gradient_t, int64_t padded) const noexcept {
    constexpr auto kMost = static_cast<E>(0x1p40), kLeast = 1 / kMost;
    E *const inverse = part(places_.inverse), *const longer = part(places_.longer);
    const auto epsilon = static_cast<E>(change_.epsilon);
    std::fill_n(inverse, padded, E(0));
    table_.gradients.add_dots(rows_t, rows_t, head_dim_, padded, inverse);
    for (int64_t x = 0; x < padded; ++x) {
      if ((inverse[x] > kMost || (inverse[x] < kLeast && inverse[x] > 0)) &&
          scale_row(rows_t + x, gradient_t ? gradient_t + x : nullptr, padded, inverse[x])) {
        longer[x] = 1;
        inverse[x] = 1 / std::sqrt(inverse[x]);
        continue;
      }
      const E length = std::sqrt(inverse[x]);
      longer[x] = length > epsilon ? E(1) : E(0);
      inverse[x] = 1 / std::max(length, epsilon);
    }
  }

  // Scales a row and its gradient so that the largest element is between 1 and 2, and sums its
  // squares. Returns false and changes nothing if the row is not finite or not longer than epsilon.
  bool scale_row(E* row, E* gradient, int64_t step, E& squares) const noexcept {
    E most = 0;
    for (int64_t d = 0; d < head_dim_; ++d) most = std::max(most, std::abs(row[d * step]));
    if (most - most != 0) return false;
    const int exponent = std::ilogb(most);
    E sum = 0;
    for (int64_t d = 0; d < head_dim_; ++d) {
      const E scaled = std::scalbn(row[d * step], -exponent);
      sum += scaled * scaled;
    }
    if (!(std::scalbn(std::sqrt(sum), exponent) > static_cast<E>(change_.epsilon))) return false;
    for (int64_t d = 0; d < head_dim_; ++d) {
      row[d * step] = std::scalbn(row[d * step], -exponent);
      if (gradient) gradient[d * step] = std::scalbn(gradient[d * step], -exponent);
    }
    squares = sum;
    return true;
  }

  // dx = dy / |x| - x (x . dy) / |x|^3, or dy / epsilon.
  void transform_back_lengths(E* gradient_t, const RowsAt& given, const RowPlace& place,
                              int64_t padded) const noexcept {
    E* const given_t = part(places_.given_t);
    E *const inverse = part(places_.inverse), *const along = part(places_.along);
    const E* const longer = part(places_.longer);
    load(given, place, padded, given_t);
    find_lengths(given_t, gradient_t, padded);
    std::fill_n(along, padded, E(0));
    table_.gradients.add_dots(given_t, gradient_t, head_dim_, padded, along);
    for (int64_t x = 0; x < padded; ++x) {
      along[x] = longer[x] == 0 ? E(0) : -(along[x] * inverse[x]) * inverse[x] * inverse[x];
      if (along[x] - along[x] != 0 || inverse[x] - inverse[x] != 0)
        keep_zero(gradient_t + x, given_t + x, inverse[x], along[x], padded);
    }
    table_.row_transforms.combine(gradient_t, given_t, head_dim_, inverse, along, padded);
  }

  // A gradient of 0 stays 0, even if its row is not finite: no query attends to that row.
  void keep_zero(const E* gradient, E* given, E& inverse, E& along, int64_t padded) const noexcept {
    for (int64_t d = 0; d < head_dim_; ++d)
      if (gradient[d * padded] != 0) return;
    for (int64_t d = 0; d < head_dim_; ++d) given[d * padded] = 0;
    inverse = along = 0;
  }

  const KernelTable<E>& table_;
  const RowTransform& change_;
  RotaryAngles angles_;
  int64_t head_dim_;
  const RowTransformPlaces<E>& places_;
  std::byte* scratch_;
};

}  // namespace rapt
