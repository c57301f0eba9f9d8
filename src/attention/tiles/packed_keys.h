#pragma once
// Keys and values in the form that the products read, packed once per call before the first query
// tile. A call does this if its route has operands of its own and several work units read them.
// Otherwise each work unit packs one block at a time (key_blocks.h), to the same bits.
//
// Each sequence begins at a whole step of the route, so packed rows have their own numbering:
// [matrices][packed_rows][dims, padded]. PackedRows is in the header because it is a template over
// E.
#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"
#include "attention/tiles/exact_rows.h"
#include "base/rare.h"

namespace rapt {

// Where packed rows of keys, or of values, lie.
struct PackedPlaces {
  CallPlace<std::byte> rows;    // [matrices * packed_rows][dims, padded] of the route's elements
  CallPlace<uint32_t> outside;  // [matrices * packed_rows / step]: rows for ExactRows

  template <class E>
  void reserve(ScratchPlan<E>& plan, const Operand& from, int64_t dims) {
    const int64_t step = plan.tiling.step;
    const int64_t all = KeyMatrices(plan.problem, from).count * packed_rows(plan.problem, step);
    plan.call.place(rows, {all, plan.packed_bytes(dims)});
    plan.call.place_if(plan.kernels.route.find_outside, outside, {all / step});
  }
};

// Packs all keys and values that some query may attend to, of a call that packs ahead. Throws
// Error(cancelled).
template <class E>
void pack_keys(const ForwardCall<E>& call, const Context& context);

// The packed rows of the keys, or of the values.
template <class E>
class PackedRows {
 public:
  PackedRows(const ForwardCall<E>& call, const Operand& rows, const PackedPlaces& places) noexcept
      : used_(call.tiling.packs_ahead) {
    if (!used()) return;  // saves small calls the divisions below
    rank_ = call.problem.leading_rank;
    step_ = call.tiling.step;
    rows_ = packed_rows(call.problem, step_);
    matrices_ = KeyMatrices(call.problem, rows);
    row_bytes_ = places.rows.columns();
    packed_ = call.at(places.rows);
    outside_ = places.outside.in_or_null(call.workspace);
  }
  bool used() const noexcept { return rare(used_); }
  const KeyMatrices& matrices() const noexcept { return matrices_; }

  // Selects a sequence of a head.
  void begin_head(const int64_t* index, int64_t key_begin, int64_t sequence) noexcept {
    if (used()) select(matrices_.of(index, rank_), key_begin, sequence);
  }
  void select(int64_t matrix, int64_t key_begin, int64_t sequence) noexcept {
    first_ = matrix * rows_ + packed_begin(key_begin, sequence, step_);
  }

  // The address of key `begin` of the sequence; `begin` is a multiple of the step.
  std::byte* at(int64_t begin) const noexcept { return packed_ + (first_ + begin) * row_bytes_; }
  // Which of `count` rows have elements that the route cannot multiply.
  BlockBits outside(int64_t begin, int64_t count) const noexcept {
    BlockBits bits;
    for (int64_t i = 0; outside_ && i < count; i += step_)
      bits.words[i >> 6] |= uint64_t{outside_[(first_ + begin + i) / step_]} << (i & 63);
    return bits;
  }
  void set_outside(int64_t begin, int64_t count, const BlockBits& bits) const noexcept {
    for (int64_t i = 0; outside_ && i < count; i += step_)
      outside_[(first_ + begin + i) / step_] =
          static_cast<uint32_t>(bits.words[i >> 6] >> (i & 63));
  }

 private:
  bool used_;
  // Set if it is used.
  int rank_;
  int64_t step_, rows_, row_bytes_, first_;
  KeyMatrices matrices_;
  std::byte* packed_;
  uint32_t* outside_;
};

template <class E>
PackedRows<E> packed_keys(const ForwardCall<E>& call) noexcept {
  return {call, call.problem.key, call.layout.blocks.packed_key};
}
template <class E>
PackedRows<E> packed_values(const ForwardCall<E>& call) noexcept {
  return {call, call.problem.value, call.layout.blocks.packed_value};
}

}  // namespace rapt
