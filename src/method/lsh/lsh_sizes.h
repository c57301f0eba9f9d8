#pragma once
// The sizes of an LSH call: buckets, chunks and segments.
//
// This room, src/method/lsh, computes LSH attention (rapt/method/lsh.h). In: a MethodCall. Out: the
// results of all heads. The steps: rotations.h, find_buckets.h, sort_rows.h, chunk_slots.h, then
// per round one call of the exact engine for each segment (segment.h) under a mask (pair_mask.h).
//
// A *slot* is a place in the sorted row of a round. Chunks are runs of `chunk` slots, some of which
// may be empty; `look_back` slots before a chunk hold the keys that its queries meet beside it. A
// *segment* is some chunks whose rows are gathered together, so that they fit the L2.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "rapt/method/lsh.h"

namespace rapt {

inline constexpr int64_t kMostLshRounds = 64;

// With separate keys, two numbers of 32 bits belong to a bucket.
inline constexpr int64_t kMostLshBuckets = int64_t{1} << 30;

// More buckets than this are found by two hashes, as in Trax.
inline constexpr int64_t kMostBucketsOfOneHash = 128;

// Key blocks of the engine begin at multiples of 64 or 128 keys. Chunks that begin anew with each
// bucket lie in blocks so that no later row moves an earlier one to another block: chunks of up to
// 64 rows within one block, longer ones from the start of a block on. If a chunk and what it looks
// back to exceed the engine's sums of 1,024 keys (kChunkKeys, attention/forward/chunks.h), its
// place among them decides bits, too: then each part of a bucket begins a chunk.
inline constexpr int64_t kLeastBlock = 64, kMostBlock = 128, kKeysOfSum = 1024;

// Bytes of the rows of a segment, gathered and computed: the L2 of small cores.
inline constexpr int64_t kSegmentBytes = 512 << 10;

struct LshSizes {
  int64_t rounds, chunk;
  int64_t factors[2];  // buckets of each hash; 1: no hash
  int64_t columns;     // projections of a round
  int64_t look_back;
  int64_t slot_step;    // chunks of a bucket begin at multiples of it within their slots
  int64_t most_chunks;  // of a round
  int64_t segment_chunks;

  int64_t buckets() const noexcept { return factors[0] * factors[1]; }
  int64_t most_segments() const noexcept {
    return (most_chunks + segment_chunks - 1) / segment_chunks;
  }
};

inline int64_t even_from(int64_t n) noexcept { return std::max<int64_t>(2, n + (n & 1)); }

// `row_bytes`: of all tensors of a segment, for one row.
inline LshSizes lsh_sizes(const Lsh& lsh, int64_t rows, int64_t row_bytes) {
  LshSizes s{};
  s.rounds = lsh.rounds;
  s.chunk = std::clamp<int64_t>(lsh.chunk, 1, std::max<int64_t>(rows, 1));
  const int64_t two_per_chunk = 2 * std::max<int64_t>(1, (rows + lsh.chunk - 1) / lsh.chunk);
  const int64_t buckets = lsh.buckets > 0 ? lsh.buckets : std::min(two_per_chunk, kMostLshBuckets);
  s.factors[0] = buckets, s.factors[1] = 1;
  s.columns = buckets / 2;
  if (buckets > kMostBucketsOfOneHash) {
    s.factors[0] =
        even_from(static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(buckets)))));
    s.factors[1] = even_from((buckets + s.factors[0] - 1) / s.factors[0]);
    s.columns = (s.factors[0] + s.factors[1]) / 2;
  }
  const int64_t whole = (rows + s.chunk - 1) / s.chunk;
  s.slot_step = 1;
  if (lsh.cut == LshCut::row) {
    s.look_back = whole > 1 ? s.chunk : 0;
    s.most_chunks = whole;
  } else {
    const bool within_block = s.chunk <= kLeastBlock;
    s.look_back = within_block ? kLeastBlock : (s.chunk + kMostBlock - 1) / kMostBlock * kMostBlock;
    if (!within_block) s.slot_step = s.chunk + s.look_back > kKeysOfSum ? s.chunk : kMostBlock;
    // The rows of two neighbouring chunks do not fit one. Each part of a bucket may leave a step.
    const int64_t parts = std::min(s.buckets(), rows) + whole;
    s.most_chunks = 2 * (rows + (s.slot_step - 1) * parts) / s.chunk + 2;
  }
  s.segment_chunks = std::clamp<int64_t>(kSegmentBytes / std::max<int64_t>(row_bytes, 1) / s.chunk,
                                         1, std::max<int64_t>(s.most_chunks, 1));
  return s;
}

}  // namespace rapt
