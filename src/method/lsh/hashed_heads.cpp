#include "method/lsh/hashed_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "method/lsh/find_buckets.h"
#include "method/lsh/rotations.h"
#include "method/lsh/sort_rows.h"

namespace rapt {
namespace {

// Rows of queries or keys after which a segment of separate keys ends, at the end of a bucket. Half
// a piece (segment.h), so that few segments have a second one.
constexpr int64_t kRowsOfRun = 512;

Context one_thread() {
  Context context;
  context.threads = 1;
  return context;
}

// The sum of (factor x)^2: eight sums, in a fixed order.
template <class E>
double square_of(const E* row, int64_t dims, double factor) noexcept {
  double sums[8] = {};
  const auto add = [&](int64_t i, double x) { sums[i] += (factor * x) * (factor * x); };
  int64_t d = 0;
  for (; d + 8 <= dims; d += 8)
    for (int64_t i = 0; i < 8; ++i) add(i, row[d + i]);
  for (int64_t i = 0; d + i < dims; ++i) add(i, row[d + i]);
  double square = 0;
  for (const double sum : sums) square += sum;
  return square;
}

// 1 / |row|, and 0 where E cannot hold it: the key of a row of zeros, or of one that is too short,
// is 0. Rows of f64 whose squares overflow or underflow are scaled first.
template <class E>
E inverse_length(const E* row, int64_t dims) noexcept {
  constexpr double kLeastSquare = 0x1p-900, kScale = 0x1p600;
  double factor = 1, square = square_of(row, dims, factor);
  if (square < kLeastSquare || square > std::numeric_limits<double>::max()) {
    factor = square < kLeastSquare ? kScale : 1 / kScale;
    square = square_of(row, dims, factor);
  }
  const double inverse = factor / std::sqrt(square);
  return inverse > std::numeric_limits<E>::max() ? E(0) : static_cast<E>(inverse);
}

// Separate keys: rows of the same bucket have the same number, and numbers of two buckets are not
// neighbours.
void number_by_bucket(const uint64_t* keys, int64_t rows, int64_t rounds, int64_t round,
                      int32_t* slots, int32_t* numbers) noexcept {
  for (int64_t i = 0; i < rows; ++i) {
    slots[i] = position_of(keys[i]);
    numbers[slots[i] * rounds + round] = 2 * bucket_of_key(keys[i]) + 1;
  }
}

}  // namespace

template <class E>
HashedHeads<E>::HashedHeads(const MethodCall& call, const Lsh& lsh, const LshSizes& sizes)
    : call_(call), lsh_(lsh), sizes_(sizes) {
  query_.rows = call.problem.q_len;
  key_.rows = call.problem.k_len;
  if (!shared()) most_runs_ = (query_.rows + key_.rows) / kRowsOfRun + 2;
}

template <class E>
void HashedHeads<E>::place(ScratchPlanner<Per::component>& head,
                           ScratchPlanner<Per::worker>& worker) {
  const Problem& p = call_.problem;
  const int64_t columns = sizes_.rounds * sizes_.columns;
  const auto place_side = [&](bool wanted, LshSide& side, int64_t slots) {
    head.place_if(wanted, side.buckets, {sizes_.rounds, side.rows});
    head.place_if(wanted, side.slots, {sizes_.rounds, slots});
    head.place_if(wanted, side.numbers, {side.rows, sizes_.rounds});
  };
  place_side(true, query_, shared() ? sizes_.most_chunks * sizes_.chunk : query_.rows);
  place_side(!shared(), key_, key_.rows);
  const auto copies = [](const Operand& o) {
    return o.dtype != dtype_of<E>() || o.dim_stride != 1;
  };
  head.place_if(copies(p.query), query_copy_, {p.q_len, p.head_dim});
  head.place_if(!shared() && copies(p.key), key_copy_, {p.k_len, p.head_dim});
  head.place_if(copies(p.value), value_copy_, {p.k_len, p.value_dim});
  head.place_if(shared(), inverse_, {p.q_len});
  head.place(rotations_, {columns, p.head_dim});
  head.place(packed_, {static_cast<int64_t>(packed_weight_bytes(columns, p.head_dim, dtype_of<E>(),
                                                                PackedFor::multiply))});
  head.place(weight_, {1});
  head.place(chunks_, {sizes_.rounds});
  head.place_if(!shared(), runs_, {sizes_.rounds, most_runs_});

  const int64_t rows = std::min(kHashedRows, std::max(p.q_len, p.k_len));
  worker.place(projections_, {rows, columns});
  worker.place(product_, {static_cast<int64_t>(product_workspace_bytes(
                             rows, p.head_dim, columns, dtype_of<E>(), one_thread()))});
  worker.place(sort_keys_, {std::max(p.q_len, p.k_len)});
  worker.place(sort_other_, {std::max(p.q_len, p.k_len)});
  worker.place_if(!shared(), sort_keys_of_keys_, {p.k_len});
}

template <class E>
void HashedHeads<E>::draw_rotations(int64_t head, std::byte* memory) const {
  const Problem& p = call_.problem;
  int64_t index[kMaxRank];
  p.index_of(head, index);
  E* const rows = rotations_.in(memory);
  const int64_t last = p.leading_rank > 0 ? index[p.leading_rank - 1] : 0;
  fill_rotations(lsh_, sizes_, p.head_dim, last, rows);
  *weight_.in(memory) = pack_weight(
      TensorView(rows, {sizes_.rounds * sizes_.columns, p.head_dim}), PackedFor::multiply,
      {packed_.in(memory), static_cast<size_t>(packed_.count())}, Precision::fma);
}

template <class E>
void HashedHeads<E>::copy_rows(const TensorView& rows, const ComponentPlace<E>& copy, int64_t begin,
                               int64_t end, std::byte* memory) const {
  if (!copy.exists()) return;
  const auto* from = static_cast<const std::byte*>(rows.data);
  kernels<E>().fma[static_cast<int>(rows.dtype)]->pack_keys(
      from + begin * rows.strides[0] * size_of(rows.dtype), rows.strides[0], rows.strides[1],
      end - begin, rows.shape[1], copy.in(memory, begin));
}

template <class E>
void HashedHeads<E>::find_buckets(const DenseRows<E>& rows, int64_t begin, int64_t end,
                                  const LshSide& side, std::byte* memory, std::byte* worker) const {
  const int64_t columns = sizes_.rounds * sizes_.columns, dims = call_.problem.head_dim;
  E* const projections = projections_.in(worker);
  multiply(TensorView(rows.data + begin * rows.stride, {end - begin, dims}, {rows.stride, 1}),
           *weight_.in(memory), TensorView(projections, {end - begin, columns}),
           {.precision = Precision::fma}, one_thread(),
           {product_.in(worker), static_cast<size_t>(product_.count())});
  for (int64_t r = 0; r < sizes_.rounds; ++r) {
    int32_t* const buckets = side.buckets.in(memory, r);
    for (int64_t i = begin; i < end; ++i)
      buckets[i] = bucket_of(projections + (i - begin) * columns + r * sizes_.columns, sizes_);
  }
}

template <class E>
void HashedHeads<E>::hash_rows(int64_t head, int64_t task, std::byte* memory,
                               std::byte* worker) const {
  const int64_t of_queries = blocks(query_.rows);
  const bool of_keys = task >= of_queries;
  const int64_t begin = (of_keys ? task - of_queries : task) * kHashedRows;
  const KeyReach reach = call_.reach(head);
  if (!of_keys) {
    const int64_t end = std::min(begin + kHashedRows, query_.rows);
    copy_rows(call_.query(head), query_copy_, begin, end, memory);
    const DenseRows<E> rows = query_rows(head, memory);
    if (shared())
      for (int64_t i = begin; i < end; ++i)
        inverse_.in(memory)[i] =
            inverse_length(rows.data + i * rows.stride, call_.problem.head_dim);
    const int64_t hashed = std::min(end, hashed_queries(head));
    if (begin < hashed) find_buckets(rows, begin, hashed, query_, memory, worker);
    return;
  }
  const int64_t end = std::min(begin + kHashedRows, call_.problem.k_len);
  copy_rows(call_.value(head), value_copy_, begin, end, memory);
  if (shared()) return;
  copy_rows(call_.key(head), key_copy_, begin, end, memory);
  const int64_t hashed = std::min(end, reach.keys);
  if (begin < hashed) find_buckets(key_rows(head, memory), begin, hashed, key_, memory, worker);
}

template <class E>
void HashedHeads<E>::find_runs(int64_t round, const uint64_t* queries, int64_t query_count,
                               const uint64_t* keys, int64_t key_count,
                               std::byte* memory) const noexcept {
  BucketRun* const runs = runs_.in(memory, round);
  int64_t count = 0, q = 0, k = 0;
  BucketRun run{};
  while (q < query_count) {
    const int32_t bucket = bucket_of_key(queries[q]);
    while (q < query_count && bucket_of_key(queries[q]) == bucket) ++q;
    while (k < key_count && bucket_of_key(keys[k]) <= bucket) ++k;
    run.queries = q - run.query_begin, run.keys = k - run.key_begin;
    if (run.queries < kRowsOfRun && run.keys < kRowsOfRun && q < query_count) continue;
    runs[count++] = run;
    run.query_begin = q, run.key_begin = k;
  }
  *chunks_.in(memory, round) = {count, -1};
}

template <class E>
void HashedHeads<E>::sort(int64_t head, int64_t round, std::byte* memory,
                          std::byte* worker) const noexcept {
  const int64_t rows = hashed_queries(head);
  uint64_t* const first = sort_keys_.in(worker);
  uint64_t* const second = sort_other_.in(worker);
  const uint64_t* const sorted =
      sort_rows(query_.buckets.in(memory, round), rows, sizes_.buckets(), first, second);
  int32_t* const slots = query_.slots.in(memory, round);
  int32_t* const numbers = query_.numbers.in(memory);
  if (shared()) {
    const auto cut = lsh_.cut == LshCut::row ? cut_row : cut_buckets;
    *chunks_.in(memory, round) = cut(sorted, rows, sizes_, round, slots, numbers);
    return;
  }
  number_by_bucket(sorted, rows, sizes_.rounds, round, slots, numbers);
  // The keys need the two arrays but one, which holds the sorted queries.
  const int64_t keys = call_.reach(head).keys;
  uint64_t* const free = sorted == first ? second : first;
  const uint64_t* const sorted_keys = sort_rows(
      key_.buckets.in(memory, round), keys, sizes_.buckets(), free, sort_keys_of_keys_.in(worker));
  number_by_bucket(sorted_keys, keys, sizes_.rounds, round, key_.slots.in(memory, round),
                   key_.numbers.in(memory));
  find_runs(round, sorted, rows, sorted_keys, keys, memory);
}

template class HashedHeads<float>;
template class HashedHeads<double>;

}  // namespace rapt
