#pragma once
// Runs a pass over the chunks of a head: on one thread, or on all threads of the call, block by
// block. Both have the same bits.
#include "method/linear/lane_tile.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt {

// Chunks of a block that threads share: 1,024 tokens, so that a thread gets several of each phase.
inline constexpr int64_t kSharedSlots = 16;

// The memory of a pass. A head at work has a block; a worker has a tile.
template <class E>
struct SweepPlaces {
  ChunkSumsPlaces<E> sums;
  AddChunkPlaces<E> add;
  LaneTilePlaces<E> lanes;
};

// How the threads of a call divide its work.
struct LinearThreads {
  int workers = 1;
  bool to_executor = false;
  bool share_heads = false;  // do all threads work on one head at a time?

  LinearThreads(double work, int64_t tasks, int64_t chunks, const Context& context) {
    const Workers all(work, context);
    share_heads = tasks < all.worthwhile() && chunks > 1;
    workers = all.of_tasks(share_heads ? std::max(tasks, chunks) : tasks);
    to_executor = all.to_executor();
  }
  int64_t slots() const noexcept { return share_heads ? kSharedSlots : 1; }
};

template <class E>
SweepPlaces<E> place_sweep(const LinearCall<E>& c, const LinearThreads& threads, bool gradients,
                           ScratchPlanner<Per::component>& block,
                           ScratchPlanner<Per::worker>& worker) {
  SweepPlaces<E> places;
  places.sums = place_chunk_sums(c, threads.slots(), threads.share_heads, block);
  places.add = place_add_chunk(c, worker);
  places.lanes = place_lane_tile(c, gradients, worker);
  return places;
}

struct SweepShape {
  int64_t summed, lanes;  // tokens
  bool causal, backwards, check_features;
  const CancelToken* cancel;

  int64_t chunks() const noexcept {
    return causal ? chunks_of(std::max(summed, lanes)) : chunks_of(summed);
  }
  int64_t chunk(int64_t step) const noexcept { return backwards ? chunks() - 1 - step : step; }
  bool stopped() const noexcept { return cancel && cancel->cancelled(); }
};

// The features of a state in ranges, one for each worker at most.
struct FeatureRanges {
  int64_t length, count;

  FeatureRanges(int64_t features, int workers) noexcept {
    constexpr int64_t kStep = 6;  // rows of a register tile (kernels/vector/gradients.simd.h)
    const int64_t steps = (features + kStep - 1) / kStep;
    length = (steps + workers - 1) / workers * kStep;
    count = (features + length - 1) / length;
  }
};

// The tasks that sweep_together() runs, for the report of progress.
inline int64_t tasks_of(const SweepShape& shape, const FeatureRanges& ranges) noexcept {
  const int64_t blocks = (shape.chunks() + kSharedSlots - 1) / kSharedSlots;
  const int64_t lanes = shape.causal ? shape.chunks() : chunks_of(shape.lanes);
  return shape.chunks() + blocks * ranges.count + lanes;
}

// Calls visit(lanes, own, state, first, count) for the tiles of a chunk of lanes.
template <class E, class Visit>
void visit_lanes(const LinearCall<E>& c, const SweepShape& shape, const ChunkSums<E>& sums,
                 LaneTile<E>& lanes, int64_t slot, int64_t chunk, const Visit& visit) noexcept {
  const int64_t first = chunk * kChunk, n = std::min(kChunk, shape.lanes - first);
  const LinearState<E> state = sums.state(slot);
  for (int64_t t = 0; t < n; t += c.tile) {
    OwnChunk own;
    if (shape.causal) {
      const int64_t summed = sums.count(chunk);
      own = {slot, chunk, 0, std::min(t + c.tile, summed), t, shape.backwards};
      if (shape.backwards) own.begin = std::min(t, summed), own.end = summed;
    }
    visit(lanes, own, state, first + t, std::min(c.tile, n - t));
  }
}

// On the calling thread.
template <class E, class Visit>
void sweep_alone(const LinearCall<E>& c, const SweepShape& shape, const SweepPlaces<E>& places,
                 ChunkSums<E>& sums, std::byte* scratch, const Visit& visit) noexcept {
  LaneTile<E> lanes(c, places.lanes, scratch);
  for (int64_t step = 0; step < shape.chunks() && !shape.stopped(); ++step) {
    const int64_t chunk = shape.chunk(step);
    sums.prepare(0, chunk, lanes.maker, shape.check_features);
    if (shape.causal) visit_lanes(c, shape, sums, lanes, 0, chunk, visit);
    sums.find_power(0, chunk);
    sums.add(0, chunk, 0, c.model.features, places.add, scratch);
    sums.carry(1);
  }
  if (shape.causal) return;
  for (int64_t chunk = 0; chunk < chunks_of(shape.lanes) && !shape.stopped(); ++chunk)
    visit_lanes(c, shape, sums, lanes, 0, chunk, visit);
}

// On all threads. `scratch_of(worker)`: the memory of a worker.
template <class E, class ScratchOf, class Visit>
void sweep_together(const LinearCall<E>& c, const SweepShape& shape, const SweepPlaces<E>& places,
                    ChunkSums<E>& sums, const LinearThreads& threads, TaskRun& run,
                    const ScratchOf& scratch_of, const Visit& visit) {
  const auto parallel = [&](int64_t tasks, const auto& work) {
    run.run(tasks, threads.workers, threads.to_executor, work);
  };
  const FeatureRanges ranges(c.model.features, threads.workers);
  for (int64_t begin = 0; begin < shape.chunks(); begin += kSharedSlots) {
    const int64_t slots = std::min(kSharedSlots, shape.chunks() - begin);
    parallel(slots, [&](int64_t slot, int worker) noexcept {
      TokenFeatures<E> maker(c, places.lanes.maker, scratch_of(worker));
      sums.prepare(slot, shape.chunk(begin + slot), maker, shape.check_features);
    });
    for (int64_t slot = 0; slot < slots; ++slot) sums.find_power(slot, shape.chunk(begin + slot));
    parallel(ranges.count, [&](int64_t nth, int worker) noexcept {
      const int64_t from = nth * ranges.length,
                    to = std::min(from + ranges.length, c.model.features);
      for (int64_t slot = 0; slot < slots; ++slot)
        sums.add(slot, shape.chunk(begin + slot), from, to, places.add, scratch_of(worker));
    });
    if (shape.causal)
      parallel(slots, [&](int64_t slot, int worker) noexcept {
        LaneTile<E> lanes(c, places.lanes, scratch_of(worker));
        visit_lanes(c, shape, sums, lanes, slot, shape.chunk(begin + slot), visit);
      });
    sums.carry(slots);
  }
  if (shape.causal) return;
  parallel(chunks_of(shape.lanes), [&](int64_t chunk, int worker) noexcept {
    LaneTile<E> lanes(c, places.lanes, scratch_of(worker));
    visit_lanes(c, shape, sums, lanes, 0, chunk, visit);
  });
}

}  // namespace rapt
