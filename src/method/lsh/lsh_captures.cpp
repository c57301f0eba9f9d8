#include "method/lsh/lsh_captures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace rapt {
namespace {

constexpr int64_t kRowsOfTask = 64;

// Where a cell begins, of `cells` over `length` positions (MapRequest). Both are below 2^30.
int64_t begin_of_cell(int64_t cell, int64_t length, int64_t cells) noexcept {
  return cell * length / cells;
}

}  // namespace

template <class E>
LshCaptures<E>::LshCaptures(const MethodCall& call, const Lsh& lsh, const LshSizes& sizes,
                            const HashedHeads<E>& hashed)
    : call_(call),
      lsh_(lsh),
      sizes_(sizes),
      hashed_(hashed),
      captures_(requested_captures(call.problem, call.checked.options)) {}

template <class E>
void LshCaptures<E>::place(ScratchPlanner<Per::worker>& worker) {
  const bool map = captures_.map.wanted;
  worker.place_if(captures_.weights.wanted || map, row_, {call_.problem.k_len});
  worker.place_if(map, cells_, {captures_.map.columns});
}

template <class E>
int64_t LshCaptures<E>::tasks_of_weights() const noexcept {
  if (!captures_.weights.wanted) return 0;
  return (captures_.weights.rows + kRowsOfTask - 1) / kRowsOfTask;
}
template <class E>
int64_t LshCaptures<E>::tasks_of_map() const noexcept {
  return captures_.map.wanted ? captures_.map.rows : 0;
}

template <class E>
int64_t LshCaptures<E>::count_of(int64_t query, int64_t key, std::byte* memory) const noexcept {
  if (hashed_.shared() && key == query) return 0;
  const int32_t* const of_query = hashed_.query_side().numbers.in(memory) + query * sizes_.rounds;
  const int32_t* const of_key = hashed_.key_side().numbers.in(memory) + key * sizes_.rounds;
  int64_t count = 0;
  for (int64_t r = 0; r < sizes_.rounds; ++r)
    count += of_key[r] == of_query[r] || of_key[r] == hashed_.chunks(r, memory).before(of_query[r]);
  return lsh_.duplicates == LshDuplicates::count_all ? count : std::min<int64_t>(count, 1);
}

template <class E>
E LshCaptures<E>::score(int64_t head, int64_t query, int64_t key,
                        std::byte* memory) const noexcept {
  const DenseRows<E> queries = hashed_.query_rows(head, memory);
  const DenseRows<E> keys = hashed_.key_rows(head, memory);
  const E* const inverse = hashed_.inverse_lengths(memory);
  const E scale = static_cast<E>(call_.problem.scale), factor = inverse ? inverse[key] : E(1);
  const E *const q = queries.data + query * queries.stride, *const k =
                                                                keys.data + key * keys.stride;
  E sum = 0;
  for (int64_t d = 0; d < call_.problem.head_dim; ++d)
    sum = std::fma(scale * q[d], factor * k[d], sum);
  return sum;
}

template <class E>
void LshCaptures<E>::weigh(int64_t query, int64_t end, std::byte* memory, E* row) const noexcept {
  constexpr E kNone = -std::numeric_limits<E>::infinity();
  E most = kNone, sum = 0;
  for (int64_t key = 0; key < end; ++key) most = row[key] > most ? row[key] : most;
  for (int64_t key = 0; key < end; ++key) {
    const bool none = row[key] == kNone;
    const bool once = none || lsh_.duplicates == LshDuplicates::count_once;
    const E count = once ? E(1) : static_cast<E>(count_of(query, key, memory));
    sum += row[key] = none ? E(0) : count * std::exp(row[key] - most);
  }
  for (int64_t key = 0; key < end; ++key)
    if (sum > 0)
      row[key] /= sum;
    else if (count_of(query, key, memory) > 0)  // a score is NaN or +inf, or all are -inf
      row[key] = std::numeric_limits<E>::quiet_NaN();
}

template <class E>
void LshCaptures<E>::find_row(int64_t head, int64_t query, WeightsStage stage, std::byte* memory,
                              E* row) const noexcept {
  const bool scores = stage == WeightsStage::scores;
  const E excluded = scores ? -std::numeric_limits<E>::infinity() : E(0);
  const int64_t end = call_.reach(head).end(query);
  bool any = false;
  std::fill_n(row, call_.problem.k_len, excluded);
  if (query >= hashed_.hashed_queries(head)) return;
  for (int64_t key = 0; key < end; ++key) {
    const bool looked_at = count_of(query, key, memory) > 0;
    any |= looked_at;
    row[key] = looked_at ? score(head, query, key, memory) : -std::numeric_limits<E>::infinity();
  }
  if (any) {
    if (!scores) weigh(query, end, memory, row);
    return;
  }
  std::fill_n(row, end, excluded);
  if (!hashed_.shared() || query >= end) return;
  const E self = score(head, query, query, memory);
  const E weight = std::isfinite(self) ? E(1) : std::numeric_limits<E>::quiet_NaN();
  row[query] = scores ? self : weight;
}

template <class E>
template <class Visit>
void LshCaptures<E>::for_each_place(const ChosenHeads& heads, const Operand& result, int64_t rows,
                                    int64_t columns, int64_t head,
                                    const Visit& visit) const noexcept {
  if (heads.chosen.empty()) {
    visit(matrix_of(result, call_.problem, head, rows, columns));
    return;
  }
  for (int64_t nth = 0; nth < heads.count; ++nth)
    if (heads[nth] == head)
      visit(TensorView(reinterpret_cast<E*>(result.at(nth * result.lead_strides[0])),
                       {rows, columns}, {result.row_stride, result.dim_stride}));
}

template <class E>
void LshCaptures<E>::write_weights(int64_t head, int64_t task, const Outputs& outputs,
                                   std::byte* memory, std::byte* worker) const noexcept {
  const RequestedWeights& w = captures_.weights;
  const int64_t begin = task * kRowsOfTask, end = std::min(begin + kRowsOfTask, w.rows);
  const int64_t keys = call_.problem.k_len;
  E* const row = row_.in(worker);
  for_each_place(w.heads, outputs.weights, w.rows, keys, head, [&](const TensorView& to) {
    for (int64_t i = begin; i < end; ++i) {
      find_row(head, w.row(i), w.stage, memory, row);
      E* const out = static_cast<E*>(to.data) + i * to.strides[0];
      for (int64_t j = 0; j < keys; ++j) out[j * to.strides[1]] = row[j];
    }
  });
}

template <class E>
void LshCaptures<E>::write_map(int64_t head, int64_t task, const Outputs& outputs,
                               std::byte* memory, std::byte* worker) const noexcept {
  const RequestedMap& map = captures_.map;
  const Problem& p = call_.problem;
  const int64_t begin = begin_of_cell(task, p.q_len, map.rows),
                end = begin_of_cell(task + 1, p.q_len, map.rows);
  E* const row = row_.in(worker);
  double* const cells = cells_.in(worker);
  for_each_place(map.heads, outputs.map, map.rows, map.columns, head, [&](const TensorView& to) {
    std::fill_n(cells, map.columns, 0.0);
    for (int64_t i = begin; i < end; ++i) {
      if (call_.context.cancel && call_.context.cancel->cancelled()) return;
      find_row(head, i, WeightsStage::weights, memory, row);
      for (int64_t c = 0, j = 0; c < map.columns; ++c)
        for (const int64_t next = begin_of_cell(c + 1, p.k_len, map.columns); j < next; ++j)
          if (map.pool != Pool::max)
            cells[c] += row[j];
          else if (!(row[j] <= cells[c]))
            cells[c] = std::isnan(cells[c]) ? cells[c] : row[j];
    }
    E* const out = static_cast<E*>(to.data) + task * to.strides[0];
    for (int64_t c = 0; c < map.columns; ++c) {
      const int64_t columns =
          begin_of_cell(c + 1, p.k_len, map.columns) - begin_of_cell(c, p.k_len, map.columns);
      const double pairs = map.pool == Pool::mean
                               ? static_cast<double>(end - begin) * static_cast<double>(columns)
                               : 1;
      out[c * to.strides[1]] = static_cast<E>(cells[c] / pairs);
    }
  });
}

template class LshCaptures<float>;
template class LshCaptures<double>;

}  // namespace rapt
