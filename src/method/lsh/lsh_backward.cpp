#include "method/lsh/lsh_backward.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "method/lsh/lsh_forward.h"

namespace rapt {
namespace {

// Bytes per row of a segment: query, key, value, output, d_output and the three gradients, of which
// those of keys lie twice.
int64_t backward_row_bytes(const Problem& p) {
  return (5 * p.head_dim + 5 * p.value_dim) * size_of(p.result_dtype);
}

// Work relative to the forward pass: five products, not two.
constexpr double kBackwardWork = 2.5;

template <class E>
TensorView rows_of(E* data, int64_t heads, int64_t rows, int64_t dims) {
  return TensorView(data, {heads, rows, dims});
}

// sums[positions[i]] += rows[i]; empty slots have no sum.
template <class E>
void add_rows(const E* rows, const int32_t* positions, int64_t count, int64_t dims,
              E* sums) noexcept {
  for (int64_t i = 0; i < count; ++i, rows += dims) {
    if (positions[i] < 0) continue;
    E* const sum = sums + positions[i] * dims;
    for (int64_t d = 0; d < dims; ++d) sum[d] += rows[d];
  }
}

template <class E>
void copy_dense(const TensorView& from, int64_t begin, int64_t end, E* to) noexcept {
  const auto* const rows = static_cast<const std::byte*>(from.data);
  kernels<E>().fma[static_cast<int>(from.dtype)]->pack_keys(
      rows + begin * from.strides[0] * size_of(from.dtype), from.strides[0], from.strides[1],
      end - begin, from.shape[1], to + begin * from.shape[1]);
}

template <class E>
void store(const E* rows, const TensorView& to, int64_t begin, int64_t end) noexcept {
  const int64_t dims = to.shape[1];
  kernels<E>().gradients.store_key_rows[static_cast<int>(to.dtype)](
      rows + begin * dims, dims, end - begin, dims, E(1),
      static_cast<std::byte*>(to.data) + begin * to.strides[0] * size_of(to.dtype), to.strides[0],
      to.strides[1]);
}

}  // namespace

template <class E>
LshBackward<E>::LshBackward(const MethodCall& call, const Lsh& lsh, const WantedGradients& wanted)
    : call_(call),
      lsh_(lsh),
      wanted_(wanted),
      sizes_(lsh_sizes(lsh, call.problem.k_len, backward_row_bytes(call.problem))),
      hashed_(call, lsh, sizes_),
      components_(call, wanted),
      threads_(kBackwardWork * lsh_work(call, sizes_, hashed_.shared()), call.context) {
  const Problem& p = call.problem;
  workers_ = threads_.of_tasks(components_.components() *
                               std::max(blocks_of_rows(), sizes_.most_segments()));
  lane_count_ = heads_in_flight(components_.components(), p.q_len, workers_);

  ScratchPlanner<Per::component> head;
  ScratchPlanner<Per::worker> worker;
  hashed_.place(head, worker);
  const bool scores = wants_scores();
  head.place_if(scores, d_query_, {components_.query_slots(), p.q_len * p.head_dim});
  head.place_if(scores, d_key_,
                {hashed_.shared() ? components_.query_slots() : components_.key_slots(),
                 p.k_len * p.head_dim});
  head.place_if(wanted.value, d_value_, {components_.value_slots(), p.k_len * p.value_dim});
  head.place(output_, {p.q_len, p.value_dim});
  head.place(d_output_, {p.q_len, p.value_dim});
  head.place(lse_, {p.q_len});
  head.place(d_lse_, {p.q_len});
  head.place(attended_, {p.q_len});
  const SegmentSlots most = largest_segment(sizes_, p, hashed_.shared());
  segment_.place(worker, most, p, sizes_.rounds);
  worker.place(rows_of_output_, {most.query_rows(), p.value_dim});
  worker.place(rows_of_d_output_, {most.query_rows(), p.value_dim});
  worker.place(rows_of_lse_, {most.query_rows()});
  worker.place(rows_of_d_lse_, {most.query_rows()});
  worker.place(rows_attended_, {most.query_rows()});
  worker.place_if(scores, rows_of_d_query_, {most.query_rows(), p.head_dim});
  worker.place_if(scores, rows_of_d_key_, {most.heads * most.keys, p.head_dim});
  worker.place_if(wanted.value, rows_of_d_value_, {most.heads * most.keys, p.value_dim});
  place_engine(worker);
  ScratchPlanner<Per::call> all;
  lanes_ = all.repeat(head, lane_count_);
  scratch_of_workers_ = all.repeat(worker, workers_);
  bytes_ = all.total();
}

template <class E>
BackwardRequest LshBackward<E>::engine_request() const noexcept {
  BackwardRequest request;
  request.query = request.key = wants_scores();
  request.value = wanted_.value;
  if (wanted_.two_passes) request.passes = BackwardPasses::two;
  return request;
}

// The workspace of the engine is that of the largest segment, whose queries are so few that they
// have one part (segment.h).
template <class E>
void LshBackward<E>::place_engine(ScratchPlanner<Per::worker>& worker) {
  const Problem& p = call_.problem;
  const SegmentSlots most = largest_segment(sizes_, p, hashed_.shared());
  PairMask mask;
  AttentionOptions options = engine_options(call_);
  options.masks = {&mask};
  size_t bytes = 0;
  E* const none = nullptr;
  const auto consider = [&](int64_t heads, int64_t queries, int64_t keys) {
    bytes =
        std::max(bytes, backward_workspace_bytes(rows_of(none, heads, queries, p.head_dim),
                                                 rows_of(none, heads, keys, p.head_dim),
                                                 rows_of(none, heads, keys, p.value_dim), options,
                                                 engine_request(), engine_context(call_)));
  };
  if (hashed_.shared()) {
    for (const int64_t heads : {int64_t{1}, most.heads}) consider(heads, most.queries, most.keys);
  } else {
    consider(1, most.queries, most.keys);
  }
  worker.place(engine_, {static_cast<int64_t>(bytes)});
}

// Clears the sums of a block of rows and copies what the engine reads.
template <class E>
void LshBackward<E>::begin(const MethodGradients& gradients, const Lane& lane,
                           int64_t task) const noexcept {
  const Problem& p = call_.problem;
  const auto clear = [&](const ComponentPlace<E>& sums, const SharedHead::Sum& sum, int64_t rows,
                         int64_t dims) {
    if (!sums.exists() || !sum.first) return;
    const int64_t from = std::min(task * kHashedRows, rows);
    const int64_t to = std::min(from + kHashedRows, rows);
    std::fill_n(sums.in(lane.memory, sum.slot) + from * dims, (to - from) * dims, E(0));
  };
  const SharedHead& s = lane.shared;
  clear(d_query_, s.query, p.q_len, p.head_dim);
  clear(d_key_, hashed_.shared() ? s.query : s.key, p.k_len, p.head_dim);
  clear(d_value_, s.value, p.k_len, p.value_dim);
  const int64_t from = std::min(task * kHashedRows, p.q_len);
  const int64_t to = std::min(from + kHashedRows, p.q_len);
  if (from == to) return;
  const GradientInputs& in = gradients.inputs;
  std::fill_n(attended_.in(lane.memory) + from, to - from, uint8_t{0});
  if (p.value_dim > 0) {
    copy_dense(matrix_of(in.output, p, s.head, p.q_len, p.value_dim), from, to,
               output_.in(lane.memory));
    copy_dense(matrix_of(in.d_output, p, s.head, p.q_len, p.value_dim), from, to,
               d_output_.in(lane.memory));
  }
  const auto copy_numbers = [&](const Operand& numbers, E* out) {
    const TensorView of_head = vector_of(numbers, p, s.head, p.q_len);
    for (int64_t i = from; i < to; ++i)
      out[i] = of_head.data ? static_cast<const E*>(of_head.data)[i * of_head.strides[0]] : E(0);
  };
  copy_numbers(in.statistic, lse_.in(lane.memory));
  if (in.d_statistic.data)
    copy_numbers(in.d_statistic, d_lse_.in(lane.memory));
  else
    std::fill_n(d_lse_.in(lane.memory) + from, to - from, E(0));
}

template <class E>
bool LshBackward<E>::run_engine(const Segment<E>& segment, std::byte* worker,
                                FirstError& error) const noexcept {
  const Problem& p = call_.problem;
  const SegmentSlots& s = segment.slots();
  AttentionOptions options = engine_options(call_);
  options.masks = {&segment.mask()};
  BackwardInputs inputs;
  inputs.state.output = rows_of(rows_of_output_.in(worker), s.heads, s.queries, p.value_dim);
  inputs.state.statistic = TensorView(rows_of_lse_.in(worker), {s.heads, s.queries});
  inputs.d_output = rows_of(rows_of_d_output_.in(worker), s.heads, s.queries, p.value_dim);
  inputs.d_statistic = TensorView(rows_of_d_lse_.in(worker), {s.heads, s.queries});
  GradientOutputs outputs;
  if (wants_scores()) {
    outputs.d_query = rows_of(rows_of_d_query_.in(worker), s.heads, s.queries, p.head_dim);
    outputs.d_key = rows_of(rows_of_d_key_.in(worker), s.heads, s.keys, p.head_dim);
  }
  if (wanted_.value)
    outputs.d_value = rows_of(rows_of_d_value_.in(worker), s.heads, s.keys, p.value_dim);
  try {
    scaled_dot_product_attention_backward(
        segment.query(), segment.key(), segment.value(), options, inputs, engine_request(), outputs,
        {engine_.in(worker), static_cast<size_t>(engine_.count())}, engine_context(call_));
  } catch (...) {
    error.keep();
    return false;
  }
  return true;
}

// Adds the gradients of a segment to the sums of its rows: chunk by chunk, as the keys lie.
template <class E>
void LshBackward<E>::add(const Lane& lane, const Segment<E>& segment,
                         std::byte* worker) const noexcept {
  const Problem& p = call_.problem;
  const SegmentSlots& s = segment.slots();
  const int64_t key_slot = hashed_.shared() ? lane.shared.query.slot : lane.shared.key.slot;
  if (wants_scores())
    add_rows(rows_of_d_query_.in(worker), segment.query_positions(), s.query_rows(), p.head_dim,
             d_query_.in(lane.memory, lane.shared.query.slot));
  for (int64_t head = 0; head < s.heads; ++head) {
    const int32_t* const positions = segment.key_positions() + head * s.queries;
    if (wants_scores())
      add_rows(rows_of_d_key_.in(worker, head * s.keys), positions, s.keys, p.head_dim,
               d_key_.in(lane.memory, key_slot));
    if (wanted_.value)
      add_rows(rows_of_d_value_.in(worker, head * s.keys), positions, s.keys, p.value_dim,
               d_value_.in(lane.memory, lane.shared.value.slot));
  }
}

template <class E>
void LshBackward<E>::gather_results(const Lane& lane, const Segment<E>& segment,
                                    std::byte* worker) const noexcept {
  const int64_t dims = call_.problem.value_dim;
  const int64_t rows = segment.slots().query_rows();
  const int32_t* const positions = segment.query_positions();
  const E* const whole = nullptr;
  gather_rows(DenseRows<E>{output_.in(lane.memory), dims}, positions, rows, dims, whole,
              rows_of_output_.in(worker));
  gather_rows(DenseRows<E>{d_output_.in(lane.memory), dims}, positions, rows, dims, whole,
              rows_of_d_output_.in(worker));
  gather_rows(DenseRows<E>{lse_.in(lane.memory), 1}, positions, rows, 1, whole,
              rows_of_lse_.in(worker));
  gather_rows(DenseRows<E>{d_lse_.in(lane.memory), 1}, positions, rows, 1, whole,
              rows_of_d_lse_.in(worker));
}

template <class E>
void LshBackward<E>::run_segment(const Lane& lane, int64_t round, int64_t nth, std::byte* worker,
                                 FirstError& error) const noexcept {
  Segment<E> segment(call_, lsh_, sizes_, hashed_, segment_, lane.shared.head, round, lane.memory,
                     worker);
  for (int64_t piece = 0; segment.gather(nth, piece); ++piece) {
    const int64_t rows = segment.slots().query_rows();
    gather_results(lane, segment, worker);
    uint8_t* const seen = rows_attended_.in(worker);
    std::fill_n(seen, rows, uint8_t{0});
    segment.mask().attended = seen;
    if (!run_engine(segment, worker, error)) return;
    add(lane, segment, worker);
    const int32_t* const positions = segment.query_positions();
    for (int64_t i = 0; i < rows; ++i)
      if (positions[i] >= 0) attended_.in(lane.memory)[positions[i]] |= seen[i];
  }
}

// A shared query that has attended to no other key: output v, lse scale q k; NaN if lse is.
template <class E>
void LshBackward<E>::attend_to_self(const Lane& lane, int64_t query) const noexcept {
  const Problem& p = call_.problem;
  const E* const d_output = d_output_.in(lane.memory, query);
  const E lse = lse_.in(lane.memory)[query];
  const E weight = std::isfinite(lse) ? E(1) : std::numeric_limits<E>::quiet_NaN();
  if (wanted_.value) {
    E* const d_value = d_value_.in(lane.memory, lane.shared.value.slot) + query * p.value_dim;
    for (int64_t d = 0; d < p.value_dim; ++d) d_value[d] += weight * d_output[d];
  }
  if (!wants_scores()) return;
  const E d_score = weight * static_cast<E>(p.scale) * d_lse_.in(lane.memory)[query];
  const DenseRows<E> rows = hashed_.query_rows(lane.shared.head, lane.memory);
  const E* const row = rows.data + query * rows.stride;
  const E inverse = hashed_.inverse_lengths(lane.memory)[query];
  E* const d_query = d_query_.in(lane.memory, lane.shared.query.slot) + query * p.head_dim;
  E* const d_key = d_key_.in(lane.memory, lane.shared.query.slot) + query * p.head_dim;
  for (int64_t d = 0; d < p.head_dim; ++d) {
    d_query[d] += d_score * (row[d] * inverse);
    d_key[d] += d_score * row[d];
  }
}

// d_query += (dk - k (k . dk)) / |q|; a row of zeros passes nothing. A key without a gradient may
// be padding, whose row must not show.
template <class E>
void LshBackward<E>::divide_by_lengths(const Lane& lane, int64_t query) const noexcept {
  const int64_t dims = call_.problem.head_dim;
  const DenseRows<E> rows = hashed_.query_rows(lane.shared.head, lane.memory);
  const E* const row = rows.data + query * rows.stride;
  const E inverse = hashed_.inverse_lengths(lane.memory)[query];
  E* const d_query = d_query_.in(lane.memory, lane.shared.query.slot) + query * dims;
  const E* const d_key = d_key_.in(lane.memory, lane.shared.query.slot) + query * dims;
  if (std::all_of(d_key, d_key + dims, [](E d) { return d == 0; })) return;
  double along = 0;
  for (int64_t d = 0; d < dims; ++d) along += static_cast<double>(row[d] * inverse) * d_key[d];
  for (int64_t d = 0; d < dims; ++d)
    d_query[d] += (d_key[d] - row[d] * inverse * static_cast<E>(along)) * inverse;
}

template <class E>
void LshBackward<E>::finish(const MethodGradients& gradients, const Lane& lane,
                            int64_t task) const noexcept {
  const Problem& p = call_.problem;
  const SharedHead& s = lane.shared;
  const GradientTargets& to = gradients.targets;
  const auto block = [&](int64_t rows) {
    const int64_t from = std::min(task * kHashedRows, rows);
    return KeyRange{from, std::min(from + kHashedRows, rows)};
  };
  const KeyRange queries = block(p.q_len), keys = block(p.k_len);
  if (hashed_.shared()) {
    const KeyReach reach = call_.reach(s.head);
    for (int64_t i = queries.begin; i < queries.end; ++i)
      if (!attended_.in(lane.memory)[i] && i < reach.keys && i < reach.end(i))
        attend_to_self(lane, i);
    if (wanted_.query && s.query.last)
      for (int64_t i = queries.begin; i < queries.end; ++i) divide_by_lengths(lane, i);
  }
  if (to.query.data && s.query.last && queries.begin < queries.end)
    store(d_query_.in(lane.memory, s.query.slot),
          matrix_of(to.query, p, s.head, p.q_len, p.head_dim), queries.begin, queries.end);
  if (to.key.data && s.key.last && keys.begin < keys.end)
    store(d_key_.in(lane.memory, s.key.slot), matrix_of(to.key, p, s.head, p.k_len, p.head_dim),
          keys.begin, keys.end);
  if (to.value.data && s.value.last && keys.begin < keys.end)
    store(d_value_.in(lane.memory, s.value.slot),
          matrix_of(to.value, p, s.head, p.k_len, p.value_dim), keys.begin, keys.end);
}

// Segments of one turn share no row. A segment looks back to one segment, or to a few shorter ones.
// Where the first one looks back to the last and their number is odd, the last has its own turn.
template <class E>
int64_t LshBackward<E>::turns() const noexcept {
  if (!hashed_.shared()) return 1;
  if (wraps()) return 3;
  const int64_t segment_rows = sizes_.segment_chunks * sizes_.chunk;
  return 1 + (sizes_.look_back + segment_rows - 1) / segment_rows;
}
template <class E>
int64_t LshBackward<E>::segments_of(int64_t turn) const noexcept {
  if (wraps() && turn == 2) return 1;
  const int64_t step = wraps() ? 2 : turns();
  return (most_segments() - turn + step - 1) / step;
}
template <class E>
int64_t LshBackward<E>::segment_of(int64_t turn, int64_t task, int64_t segments) const noexcept {
  if (!wraps()) return turn + task * turns();
  const int64_t last = segments - 1, segment = turn + 2 * task;
  const bool odd = last > 0 && last % 2 == 0;
  if (turn == 2) return odd ? last : kNoSegment;
  return odd && segment == last ? kNoSegment : segment;
}

template <class E>
void LshBackward<E>::run_task(const Lane& lane, int64_t round, int64_t turn, int64_t task,
                              std::byte* worker, FirstError& error) const noexcept {
  const int64_t chunks = hashed_.chunks(round, lane.memory).chunks;
  const int64_t segments = (chunks + sizes_.segment_chunks - 1) / sizes_.segment_chunks;
  const int64_t segment = segment_of(turn, task, segments);
  if (segment != kNoSegment) run_segment(lane, round, segment, worker, error);
}

template <class E>
void LshBackward<E>::run(const MethodGradients& gradients, std::byte* scratch) const {
  const int64_t components = components_.components();
  int64_t tasks_of_round = 0;
  for (int64_t turn = 0; turn < turns(); ++turn) tasks_of_round += segments_of(turn);
  const int64_t tasks_of_head =
      1 + hashed_.tasks_of_rows() + sizes_.rounds * (1 + tasks_of_round) + 2 * blocks_of_rows();
  TaskRun tasks(call_.context, components * components_.heads() * tasks_of_head);
  FirstError error;
  for (int64_t first = 0; first < components; first += lane_count_)
    for (int64_t nth = 0; nth < components_.heads(); ++nth) {
      const int64_t lanes = std::min(lane_count_, components - first);
      // Calls step(lane, task, scratch of the worker) for `count` tasks per component in flight.
      const auto each = [&](int64_t count, const auto& step) {
        tasks.run(lanes * count, workers_, threads_.to_executor(), [&](int64_t task, int worker) {
          const int64_t lane = task / count;
          step(Lane{components_(first + lane, nth), lanes_.nth(scratch, lane)}, task % count,
               scratch_of_workers_.nth(scratch, worker));
        });
        error.rethrow();
      };
      each(1, [&](const Lane& lane, int64_t, std::byte*) {
        hashed_.draw_rotations(lane.shared.head, lane.memory);
      });
      each(hashed_.tasks_of_rows(), [&](const Lane& lane, int64_t task, std::byte* worker) {
        hashed_.hash_rows(lane.shared.head, task, lane.memory, worker);
      });
      each(sizes_.rounds, [&](const Lane& lane, int64_t round, std::byte* worker) {
        hashed_.sort(lane.shared.head, round, lane.memory, worker);
      });
      each(blocks_of_rows(),
           [&](const Lane& lane, int64_t task, std::byte*) { begin(gradients, lane, task); });
      for (int64_t round = 0; round < sizes_.rounds; ++round)
        for (int64_t turn = 0; turn < turns(); ++turn)
          each(segments_of(turn), [&](const Lane& lane, int64_t task, std::byte* worker) {
            run_task(lane, round, turn, task, worker, error);
          });
      each(blocks_of_rows(),
           [&](const Lane& lane, int64_t task, std::byte*) { finish(gradients, lane, task); });
    }
}

template class LshBackward<float>;
template class LshBackward<double>;

}  // namespace rapt
