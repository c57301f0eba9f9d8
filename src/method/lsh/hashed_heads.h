#pragma once
// The first steps of both passes of LSH attention, for the heads in flight: rows as the engine
// reads them, lengths of shared keys, rotations, buckets, and the rows of each round in the order
// of their buckets. The forward and the backward pass do them alike, so both find the same pairs.
#include <cmath>

#include "base/scratch_planner.h"
#include "kernels/kernel_table.h"
#include "method/lsh/chunk_slots.h"
#include "method/method_call.h"
#include "rapt/product.h"

namespace rapt {

// Rows that a task hashes.
inline constexpr int64_t kHashedRows = 512;

// One side of the pairs of a head. With shared keys the queries' side is that of the keys, too.
struct LshSide {
  int64_t rows = 0;                 // q_len or k_len
  ComponentPlace<int32_t> buckets;  // [rounds][rows]
  ComponentPlace<int32_t> slots;    // [rounds][most slots]
  ComponentPlace<int32_t> numbers;  // [rows][rounds]
};

// Consecutive sorted rows of separate keys that make a segment: whole buckets.
struct BucketRun {
  int64_t query_begin, queries, key_begin, keys;
};

template <class E>
class HashedHeads {
 public:
  HashedHeads(const MethodCall& call, const Lsh& lsh, const LshSizes& sizes);

  // Reserves the arrays of a head in flight and those of a worker.
  void place(ScratchPlanner<Per::component>& head, ScratchPlanner<Per::worker>& worker);

  bool shared() const noexcept { return lsh_.keys == LshKeys::shared; }
  int64_t tasks_of_rows() const noexcept { return blocks(query_.rows) + blocks_of_keys(); }
  int64_t tasks_of_sort() const noexcept { return sizes_.rounds; }

  // The steps, in this order. Tasks of a step are independent.
  void draw_rotations(int64_t head, std::byte* memory) const;
  void hash_rows(int64_t head, int64_t task, std::byte* memory, std::byte* worker) const;
  void sort(int64_t head, int64_t round, std::byte* memory, std::byte* worker) const noexcept;

  // What the steps have made of a head.
  DenseRows<E> query_rows(int64_t head, std::byte* memory) const {
    return dense(call_.query(head), query_copy_, memory);
  }
  DenseRows<E> key_rows(int64_t head, std::byte* memory) const {
    return shared() ? query_rows(head, memory) : dense(call_.key(head), key_copy_, memory);
  }
  DenseRows<E> value_rows(int64_t head, std::byte* memory) const {
    return dense(call_.value(head), value_copy_, memory);
  }
  // [rows] 1 / length of shared keys; null: keys are used as they are.
  const E* inverse_lengths(std::byte* memory) const noexcept { return inverse_.in_or_null(memory); }
  const LshSide& query_side() const noexcept { return query_; }
  const LshSide& key_side() const noexcept { return shared() ? query_ : key_; }
  const RoundChunks& chunks(int64_t round, std::byte* memory) const noexcept {
    return *chunks_.in(memory, round);
  }
  const BucketRun* runs(int64_t round, std::byte* memory) const noexcept {
    return runs_.in(memory, round);
  }
  int64_t most_runs() const noexcept { return most_runs_; }
  // Rows that are hashed.
  int64_t hashed_queries(int64_t head) const noexcept {
    return shared() ? call_.reach(head).keys : query_.rows;
  }

 private:
  static int64_t blocks(int64_t rows) noexcept { return (rows + kHashedRows - 1) / kHashedRows; }
  int64_t blocks_of_keys() const noexcept { return blocks(call_.problem.k_len); }
  DenseRows<E> dense(const TensorView& rows, const ComponentPlace<E>& copy,
                     std::byte* memory) const noexcept {
    if (copy.exists()) return {copy.in(memory), copy.columns()};
    return {static_cast<const E*>(rows.data), rows.strides[0]};
  }
  void copy_rows(const TensorView& rows, const ComponentPlace<E>& copy, int64_t begin, int64_t end,
                 std::byte* memory) const;
  void find_buckets(const DenseRows<E>& rows, int64_t begin, int64_t end, const LshSide& side,
                    std::byte* memory, std::byte* worker) const;
  void find_runs(int64_t round, const uint64_t* queries, int64_t query_count, const uint64_t* keys,
                 int64_t key_count, std::byte* memory) const noexcept;

  const MethodCall& call_;
  const Lsh& lsh_;
  const LshSizes sizes_;
  LshSide query_, key_;
  int64_t most_runs_ = 0;
  ComponentPlace<E> query_copy_, key_copy_, value_copy_, inverse_, rotations_;
  ComponentPlace<std::byte> packed_;
  ComponentPlace<PackedWeight> weight_;
  ComponentPlace<RoundChunks> chunks_;
  ComponentPlace<BucketRun> runs_;
  Place<E> projections_;
  Place<std::byte> product_;
  Place<uint64_t> sort_keys_, sort_other_, sort_keys_of_keys_;
};

}  // namespace rapt
