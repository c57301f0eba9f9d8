#pragma once
// A segment of a round: rows gathered in sorted order, one call of the exact engine under the mask
// of pairs, and its results added to those of their rows.
//
// Shared keys: the leading dimension of the call are the chunks. Each has `chunk` queries, and the
// keys of its slots and of `look_back` slots before; keys of neighbours overlap in memory. Separate
// keys: one head with some whole buckets, whose queries are cut into pieces.
#include "method/lsh/hashed_heads.h"
#include "method/lsh/pair_mask.h"

namespace rapt {

// Queries of a piece. Below twice the engine's part length (backward_plan.cpp) a backward call has
// one part, so its workspace grows with the queries and with the keys.
inline constexpr int64_t kMostQueriesOfPiece = 1023;

// Which slots a segment has.
struct SegmentSlots {
  int64_t heads;                   // of the call: chunks
  int64_t queries, keys;           // of a head
  int64_t first_query, first_key;  // slots; below 0: before the first chunk

  int64_t query_rows() const noexcept { return heads * queries; }
  // Rows of keys of all heads; neighbours share `keys - queries` of them.
  int64_t key_rows() const noexcept { return (heads - 1) * queries + keys; }
};

// The most of any segment of a call.
SegmentSlots largest_segment(const LshSizes& sizes, const Problem& problem, bool shared) noexcept;

// Arrays of a segment, in the scratch of a worker.
template <class E>
struct SegmentPlaces {
  Place<E> query, key, value;       // gathered rows
  Place<int32_t> query_at, key_at;  // positions; kEmptySlot: none
  Place<int32_t> limit;
  Place<int32_t> query_chunk, query_before, key_chunk;  // [rounds][rows]

  void place(ScratchPlanner<Per::worker>& worker, const SegmentSlots& most, const Problem& problem,
             int64_t rounds);
};

template <class E>
class Segment {
 public:
  Segment(const MethodCall& call, const Lsh& lsh, const LshSizes& sizes,
          const HashedHeads<E>& hashed, const SegmentPlaces<E>& places, int64_t head, int64_t round,
          std::byte* memory, std::byte* worker) noexcept
      : call_(call),
        lsh_(lsh),
        sizes_(sizes),
        hashed_(hashed),
        places_(places),
        head_(head),
        round_(round),
        memory_(memory),
        worker_(worker) {}

  // Selects a piece of a segment of the round and gathers its rows; false: there are fewer.
  bool gather(int64_t nth, int64_t piece) noexcept;

  const SegmentSlots& slots() const noexcept { return slots_; }
  const int32_t* query_positions() const noexcept { return places_.query_at.in(worker_); }
  const int32_t* key_positions() const noexcept { return places_.key_at.in(worker_); }
  TensorView query() const {
    return TensorView(places_.query.in(worker_), {slots_.heads, slots_.queries, dims()});
  }
  TensorView key() const { return of_keys(places_.key.in(worker_), dims()); }
  TensorView value() const { return of_keys(places_.value.in(worker_), value_dims()); }
  // Whether a query whose output the engine found to be NaN has only scores of -inf. Then output
  // [value_dim] becomes the sum of 0 times its values: NaN only where one is not finite.
  bool has_no_finite_score(int64_t query_row, E* output) const noexcept;
  const PairMask& mask() const noexcept { return mask_; }
  PairMask& mask() noexcept { return mask_; }

 private:
  int64_t dims() const noexcept { return call_.problem.head_dim; }
  int64_t value_dims() const noexcept { return call_.problem.value_dim; }
  TensorView of_keys(E* rows, int64_t columns) const {
    return TensorView(rows, {slots_.heads, slots_.keys, columns},
                      {slots_.queries * columns, columns, 1});
  }
  bool select(int64_t nth, int64_t piece) noexcept;
  void find_positions() noexcept;
  void gather_numbers() noexcept;
  void bind_mask() noexcept;

  const MethodCall& call_;
  const Lsh& lsh_;
  const LshSizes& sizes_;
  const HashedHeads<E>& hashed_;
  const SegmentPlaces<E>& places_;
  const int64_t head_, round_;
  std::byte *const memory_, *const worker_;
  SegmentSlots slots_{};
  PairMask mask_;
};

// out [count, dims] = the rows at the positions, times `factor` of the position if it is not null;
// zeros for an empty slot.
template <class E>
void gather_rows(const DenseRows<E>& rows, const int32_t* positions, int64_t count, int64_t dims,
                 const E* factor, E* out) noexcept;

// The options of the engine's call, beside its mask.
AttentionOptions engine_options(const MethodCall& call);
// The context of the engine's call: one thread.
Context engine_context(const MethodCall& call);

}  // namespace rapt
