#include "method/lsh/segment.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numbers>

namespace rapt {
namespace {

// Rows ahead that are prefetched: about as many misses as a core has in flight.
constexpr int64_t kRowsAhead = 6;

template <class E>
void prefetch_row(const E* row, int64_t dims) noexcept {
  for (int64_t d = 0; d < dims; d += static_cast<int64_t>(64 / sizeof(E)))
    __builtin_prefetch(row + d);
}

}  // namespace

SegmentSlots largest_segment(const LshSizes& sizes, const Problem& p, bool shared) noexcept {
  if (!shared) return {1, std::min(p.q_len, kMostQueriesOfPiece), p.k_len, 0, 0};
  return {sizes.segment_chunks, sizes.chunk, sizes.chunk + sizes.look_back, 0, 0};
}

template <class E>
void SegmentPlaces<E>::place(ScratchPlanner<Per::worker>& worker, const SegmentSlots& most,
                             const Problem& p, int64_t rounds) {
  const int64_t queries = most.query_rows(), keys = most.key_rows();
  worker.place(query, {queries, p.head_dim});
  worker.place(key, {keys, p.head_dim});
  worker.place(value, {keys, p.value_dim});
  worker.place(query_at, {queries + kReadBeyond});
  worker.place(key_at, {keys});
  worker.place(limit, {queries + kReadBeyond});
  worker.place(query_chunk, {rounds, queries + kReadBeyond});
  worker.place(query_before, {rounds, queries + kReadBeyond});
  worker.place(key_chunk, {rounds, keys});
}

template <class E>
void gather_rows(const DenseRows<E>& rows, const int32_t* positions, int64_t count, int64_t dims,
                 const E* factor, E* out) noexcept {
  for (int64_t i = 0; i < count; ++i, out += dims) {
    if (const int64_t ahead = i + kRowsAhead; ahead < count && positions[ahead] >= 0)
      prefetch_row(rows.data + positions[ahead] * rows.stride, dims);
    const int64_t position = positions[i];
    if (position < 0) {
      std::fill_n(out, dims, E(0));
      continue;
    }
    const E* const row = rows.data + position * rows.stride;
    if (!factor) {
      std::memcpy(out, row, static_cast<size_t>(dims) * sizeof(E));
      continue;
    }
    const E f = factor[position];
    for (int64_t d = 0; d < dims; ++d) out[d] = f * row[d];
  }
}

template <class E>
bool Segment<E>::select(int64_t nth, int64_t piece) noexcept {
  const RoundChunks& chunks = hashed_.chunks(round_, memory_);
  if (!hashed_.shared()) {
    if (nth >= chunks.chunks) return false;
    const BucketRun& run = hashed_.runs(round_, memory_)[nth];
    const int64_t from = piece * kMostQueriesOfPiece;
    if (from >= run.queries) return false;
    slots_ = {1, std::min(run.queries - from, kMostQueriesOfPiece), run.keys,
              run.query_begin + from, run.key_begin};
    return true;
  }
  const int64_t begin = nth * sizes_.segment_chunks;
  if (begin >= chunks.chunks || piece > 0) return false;
  const int64_t first = begin * sizes_.chunk;
  slots_ = {std::min(sizes_.segment_chunks, chunks.chunks - begin), sizes_.chunk,
            sizes_.chunk + sizes_.look_back, first, first - sizes_.look_back};
  return true;
}

template <class E>
void Segment<E>::find_positions() noexcept {
  int32_t* const query_at = places_.query_at.in(worker_);
  int32_t* const key_at = places_.key_at.in(worker_);
  std::copy_n(hashed_.query_side().slots.in(memory_, round_) + slots_.first_query,
              slots_.query_rows(), query_at);
  std::fill_n(query_at + slots_.query_rows(), kReadBeyond, kEmptySlot);
  const int32_t* const of_keys = hashed_.key_side().slots.in(memory_, round_);
  const RoundChunks& chunks = hashed_.chunks(round_, memory_);
  const int64_t before = std::min(std::max<int64_t>(0, -slots_.first_key), slots_.key_rows());
  // Before the first chunk lies the last one, or nothing.
  if (chunks.before_first >= 0)
    std::copy_n(of_keys + chunks.chunks * sizes_.chunk - before, before, key_at);
  else
    std::fill_n(key_at, before, kEmptySlot);
  std::copy_n(of_keys + slots_.first_key + before, slots_.key_rows() - before, key_at + before);
}

// The chunks of the rows in earlier rounds and in this one, and the positions that they may attend
// to.
template <class E>
void Segment<E>::gather_numbers() noexcept {
  const int64_t rounds = sizes_.rounds, queries = slots_.query_rows() + kReadBeyond;
  const int32_t* const of_queries = hashed_.query_side().numbers.in(memory_);
  const int32_t* const of_keys = hashed_.key_side().numbers.in(memory_);
  const int32_t* const query_at = query_positions();
  const int32_t* const key_at = key_positions();
  for (int64_t r = 0; r < mask_.earlier_rounds + mask_.same_chunks; ++r) {
    const int64_t round = round_ - mask_.earlier_rounds + r;
    const RoundChunks& chunks = hashed_.chunks(round, memory_);
    int32_t* const chunk = places_.query_chunk.in(worker_, r);
    int32_t* const before = places_.query_before.in(worker_, r);
    int32_t* const key_chunk = places_.key_chunk.in(worker_, r);
    for (int64_t i = 0; i < queries; ++i) {
      chunk[i] = query_at[i] < 0 ? -1 : of_queries[query_at[i] * rounds + round];
      before[i] = query_at[i] < 0 ? -1 : chunks.before(chunk[i]);
    }
    for (int64_t j = 0; j < slots_.key_rows(); ++j)
      key_chunk[j] = key_at[j] < 0 ? -2 : of_keys[key_at[j] * rounds + round];
  }
  const KeyReach reach = call_.reach(head_);
  const bool self_by_limit = hashed_.shared() && !mask_.self;
  int32_t* const limit = places_.limit.in(worker_);
  for (int64_t i = 0; i < queries; ++i) {
    if (query_at[i] < 0) {
      limit[i] = 0;
      continue;
    }
    const int64_t end = reach.end(query_at[i]);
    limit[i] = static_cast<int32_t>(self_by_limit ? std::min<int64_t>(end, query_at[i]) : end);
  }
}

template <class E>
void Segment<E>::bind_mask() noexcept {
  const bool shared = hashed_.shared();
  mask_.earlier_rounds = lsh_.duplicates == LshDuplicates::count_once ? round_ : 0;
  mask_.same_chunks = !shared || lsh_.cut == LshCut::bucket;
  mask_.limit = places_.limit.in(worker_);
  // Where no query attends to later keys, the limit excludes the query itself, too.
  const KeyReach reach = call_.reach(head_);
  mask_.self = shared && (!reach.causal || reach.offset > 0) ? query_positions() : nullptr;
  mask_.positions = key_positions();
  mask_.query_chunk = places_.query_chunk.in(worker_);
  mask_.query_before = places_.query_before.in(worker_);
  mask_.key_chunk = places_.key_chunk.in(worker_);
  mask_.query_stride = places_.query_chunk.columns();
  mask_.key_stride = places_.key_chunk.columns();
  mask_.chunk = shared ? sizes_.chunk : 0;
  mask_.attended = nullptr;
}

template <class E>
bool Segment<E>::gather(int64_t nth, int64_t piece) noexcept {
  if (!select(nth, piece)) return false;
  find_positions();
  bind_mask();
  gather_numbers();
  gather_rows(hashed_.query_rows(head_, memory_), query_positions(), slots_.query_rows(), dims(),
              static_cast<const E*>(nullptr), places_.query.in(worker_));
  gather_rows(hashed_.key_rows(head_, memory_), key_positions(), slots_.key_rows(), dims(),
              hashed_.inverse_lengths(memory_), places_.key.in(worker_));
  gather_rows(hashed_.value_rows(head_, memory_), key_positions(), slots_.key_rows(), value_dims(),
              static_cast<const E*>(nullptr), places_.value.in(worker_));
  return true;
}

// Computes scores in the units and the order of the engine, so that they overflow where its scores
// do.
template <class E>
bool Segment<E>::has_no_finite_score(int64_t query_row, E* output) const noexcept {
  const auto unit = static_cast<E>(call_.problem.scale * std::numbers::log2e);
  const E* const query = places_.query.in(worker_) + query_row * dims();
  const int64_t first = query_row / slots_.queries * slots_.queries;
  const auto each_key = [&](const auto& visit) {
    for (int64_t row = first; row < first + slots_.keys; ++row)
      if (mask_.attends(query_row, row) && !visit(row)) return false;
    return true;
  };
  const bool none = each_key([&](int64_t row) {
    const E* const key = places_.key.in(worker_) + row * dims();
    E score = 0;
    for (int64_t d = 0; d < dims(); ++d) score = std::fma(query[d] * unit, key[d], score);
    // The engine found no finite score, so a negative number is one that it rounded to -inf.
    return score < 0;
  });
  if (!none) return false;
  std::fill_n(output, value_dims(), E(0));
  return each_key([&](int64_t row) {
    const E* const value = places_.value.in(worker_) + row * value_dims();
    for (int64_t d = 0; d < value_dims(); ++d) output[d] += 0 * value[d];
    return true;
  });
}

AttentionOptions engine_options(const MethodCall& call) {
  AttentionOptions options;
  options.scale = call.problem.scale;
  options.precision = call.checked.options.precision;
  options.invariant = true;  // chunks and buckets of all sizes take one kernel class
  return options;
}

Context engine_context(const MethodCall& call) {
  Context context;
  context.threads = 1;
  context.cancel = call.context.cancel;
  context.memory = call.context.memory;
  return context;
}

template struct SegmentPlaces<float>;
template struct SegmentPlaces<double>;
template class Segment<float>;
template class Segment<double>;
template void gather_rows(const DenseRows<float>&, const int32_t*, int64_t, int64_t, const float*,
                          float*) noexcept;
template void gather_rows(const DenseRows<double>&, const int32_t*, int64_t, int64_t, const double*,
                          double*) noexcept;

}  // namespace rapt
