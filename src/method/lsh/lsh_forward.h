#pragma once
// The forward pass of LSH attention. Heads are in flight together, one or more per thread. Each
// round adds its results to the rows' sums, by their lse, as merge() does (rapt/state.h).
#include "method/lsh/first_error.h"
#include "method/lsh/lsh_captures.h"
#include "method/lsh/segment.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt {

// Rows of heads that are in flight for one thread: short heads take more than one at a time.
inline constexpr int64_t kRowsInFlight = 4096;

// How many heads, of `heads`, are in flight.
int64_t heads_in_flight(int64_t heads, int64_t rows, int workers) noexcept;

// Multiplications and additions, and pairs whose scores are computed, at most.
double lsh_work(const MethodCall& call, const LshSizes& sizes, bool shared);
int64_t lsh_pairs(const MethodCall& call, const LshSizes& sizes, bool shared);

template <class E>
class LshForward {
 public:
  LshForward(const MethodCall& call, const Lsh& lsh);

  size_t workspace_bytes() const noexcept { return bytes_; }
  int workers() const noexcept { return workers_; }
  int64_t pairs() const { return lsh_pairs(call_, sizes_, hashed_.shared()); }
  void run(const Outputs& outputs, std::byte* scratch) const;

 private:
  void place_engine(ScratchPlanner<Per::worker>& worker);
  std::byte* lane(std::byte* scratch, int64_t nth) const noexcept {
    return lanes_.nth(scratch, nth);
  }
  void run_segment(int64_t head, int64_t round, int64_t nth, std::byte* memory, std::byte* worker,
                   FirstError& error) const noexcept;
  bool run_engine(const Segment<E>& segment, std::byte* worker, FirstError& error) const noexcept;
  void add(const Segment<E>& segment, std::byte* memory, std::byte* worker) const noexcept;
  void add_row(int64_t query, const E* output, E lse, std::byte* memory) const noexcept;
  void clear(int64_t task, std::byte* memory) const noexcept;
  void finish(int64_t head, int64_t task, const Outputs& outputs, std::byte* memory) const noexcept;
  void attend_to_self(int64_t head, int64_t query, std::byte* memory) const noexcept;
  int64_t blocks() const noexcept { return (call_.problem.q_len + kHashedRows - 1) / kHashedRows; }

  const MethodCall& call_;
  const Lsh& lsh_;
  const LshSizes sizes_;
  HashedHeads<E> hashed_;
  LshCaptures<E> captures_;
  SegmentPlaces<E> segment_;
  const Workers threads_;
  int64_t lane_count_ = 1;
  int workers_ = 1;
  // Per query, over rounds r: sum_ = sum e^(lse_r - top) output_r, top_ = the largest lse_r,
  // total_ = sum e^(lse_r - top). A round whose scores are all -inf has the weight 0.
  ComponentPlace<E> sum_, top_, total_;
  ComponentPlace<uint8_t> attended_;  // whether a query attended to a key
  Place<E> output_, lse_;
  Place<uint8_t> rows_attended_;
  Place<std::byte> engine_;
  RepeatedMemory lanes_, scratch_of_workers_;
  size_t bytes_ = 0;
};

}  // namespace rapt
