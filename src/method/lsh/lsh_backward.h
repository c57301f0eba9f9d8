#pragma once
// The backward pass of LSH attention: the same buckets again, and per round one backward call of
// the engine for each segment, with the output and the lse of the union. So
//
//   P = e^(s - lse),  dS = P (dO v - delta),  delta = dO . O - dlse
//
// are those of the union for every pair, and the sums over the rounds are exact for the pairs
// looked at. The keys of shared rows pass their gradient through the division by their lengths:
//
//   d_query = dq + (dk - k (k . dk)) / |q|
//
// Rows of keys belong to several segments where a chunk looks back to other ones. So segments run
// in a few turns, of which no turn has two that share a row.
#include "method/lsh/first_error.h"
#include "method/lsh/segment.h"
#include "method/shared_heads.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt {

template <class E>
class LshBackward {
 public:
  LshBackward(const MethodCall& call, const Lsh& lsh, const WantedGradients& wanted);

  size_t workspace_bytes() const noexcept { return bytes_; }
  int workers() const noexcept { return workers_; }
  void run(const MethodGradients& gradients, std::byte* scratch) const;

 private:
  static constexpr int64_t kNoSegment = -1;

  // A head of a component in flight, in its memory.
  struct Lane {
    SharedHead shared;
    std::byte* memory;
  };

  void place_engine(ScratchPlanner<Per::worker>& worker);
  BackwardRequest engine_request() const noexcept;
  void begin(const MethodGradients& gradients, const Lane& lane, int64_t task) const noexcept;
  void run_segment(const Lane& lane, int64_t round, int64_t nth, std::byte* worker,
                   FirstError& error) const noexcept;
  bool run_engine(const Segment<E>& segment, std::byte* worker, FirstError& error) const noexcept;
  void add(const Lane& lane, const Segment<E>& segment, std::byte* worker) const noexcept;
  void attend_to_self(const Lane& lane, int64_t query) const noexcept;
  void divide_by_lengths(const Lane& lane, int64_t query) const noexcept;
  void finish(const MethodGradients& gradients, const Lane& lane, int64_t task) const noexcept;
  void gather_results(const Lane& lane, const Segment<E>& segment,
                      std::byte* worker) const noexcept;
  void run_task(const Lane& lane, int64_t round, int64_t turn, int64_t task, std::byte* worker,
                FirstError& error) const noexcept;
  bool wraps() const noexcept { return hashed_.shared() && lsh_.cut == LshCut::row; }
  int64_t turns() const noexcept;
  // Tasks of a turn, each with one segment or none, of the `segments` of the round.
  int64_t segments_of(int64_t turn) const noexcept;
  int64_t segment_of(int64_t turn, int64_t task, int64_t segments) const noexcept;

  static int64_t blocks(int64_t rows) noexcept { return (rows + kHashedRows - 1) / kHashedRows; }
  int64_t blocks_of_rows() const noexcept {
    return blocks(std::max(call_.problem.q_len, call_.problem.k_len));
  }
  int64_t most_segments() const noexcept {
    return hashed_.shared() ? sizes_.most_segments() : hashed_.most_runs();
  }
  bool wants_scores() const noexcept { return wanted_.query || wanted_.key; }

  const MethodCall& call_;
  const Lsh& lsh_;
  const WantedGradients& wanted_;
  const LshSizes sizes_;
  HashedHeads<E> hashed_;
  SegmentPlaces<E> segment_;
  const SharedHeads components_;
  const Workers threads_;
  int64_t lane_count_ = 1;
  int workers_ = 1;
  // Of a component: sums of gradients, [slots][rows * dims].
  ComponentPlace<E> d_query_, d_key_, d_value_;
  // Of a head: rows as the engine reads them; which queries attended to a key.
  ComponentPlace<E> output_, d_output_, lse_, d_lse_;
  ComponentPlace<uint8_t> attended_;
  // Of a segment.
  Place<E> rows_of_output_, rows_of_d_output_, rows_of_lse_, rows_of_d_lse_;
  Place<E> rows_of_d_query_, rows_of_d_key_, rows_of_d_value_;
  Place<uint8_t> rows_attended_;
  Place<std::byte> engine_;
  RepeatedMemory lanes_, scratch_of_workers_;
  size_t bytes_ = 0;
};

}  // namespace rapt
