#include "method/lsh/lsh_forward.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "attention/plan/route.h"

namespace rapt {
namespace {

// With tile registers, a work unit has a multiple of these queries.
constexpr int64_t kQueryStep = 16;

// Bytes per row of a segment: query, key, value and output.
int64_t forward_row_bytes(const Problem& p) {
  return 2 * (p.head_dim + p.value_dim) * size_of(p.result_dtype);
}

}  // namespace

int64_t heads_in_flight(int64_t heads, int64_t rows, int workers) noexcept {
  const int64_t per_worker = std::max<int64_t>(1, kRowsInFlight / std::max<int64_t>(rows, 1));
  return std::clamp<int64_t>(per_worker * workers, 1, std::max<int64_t>(heads, 1));
}

int64_t lsh_pairs(const MethodCall& call, const LshSizes& s, bool shared) {
  const Problem& p = call.problem;
  int64_t pairs = p.k_len;
  if (shared) pairs = std::min(pairs, s.rounds * (s.chunk + std::min(s.chunk, s.look_back)));
  if (__builtin_mul_overflow(pairs, p.q_len, &pairs) ||
      __builtin_mul_overflow(pairs, p.heads, &pairs))
    return INT64_MAX;
  return pairs;
}

double lsh_work(const MethodCall& call, const LshSizes& s, bool shared) {
  const Problem& p = call.problem;
  const double rows = static_cast<double>(p.heads * s.rounds) * static_cast<double>(p.q_len);
  // Separate keys: about as many pairs as buckets of equal sizes have.
  const double keys = shared ? static_cast<double>(s.chunk + s.look_back)
                             : static_cast<double>(p.k_len) / static_cast<double>(s.buckets());
  return 2 * rows *
         (keys * static_cast<double>(p.head_dim + p.value_dim) +
          static_cast<double>(s.columns * p.head_dim));
}

template <class E>
LshForward<E>::LshForward(const MethodCall& call, const Lsh& lsh)
    : call_(call),
      lsh_(lsh),
      sizes_(lsh_sizes(lsh, call.problem.k_len, forward_row_bytes(call.problem))),
      hashed_(call, lsh, sizes_),
      captures_(call, lsh, sizes_, hashed_),
      threads_(lsh_work(call, sizes_, hashed_.shared()), call.context) {
  const Problem& p = call.problem;
  workers_ = threads_.of_tasks(p.heads * std::max(blocks(), sizes_.most_segments()));
  lane_count_ = heads_in_flight(p.heads, p.q_len, workers_);

  ScratchPlanner<Per::component> head;
  ScratchPlanner<Per::worker> worker;
  hashed_.place(head, worker);
  head.place(sum_, {p.q_len, p.value_dim});
  head.place(top_, {p.q_len});
  head.place(total_, {p.q_len});
  head.place(attended_, {p.q_len});
  segment_.place(worker, largest_segment(sizes_, p, hashed_.shared()), p, sizes_.rounds);
  place_engine(worker);
  captures_.place(worker);
  ScratchPlanner<Per::call> all;
  lanes_ = all.repeat(head, lane_count_);
  scratch_of_workers_ = all.repeat(worker, workers_);
  bytes_ = all.total();
}

// The workspace of the engine is that of the largest segment, or of a smaller one: with tile
// registers a call of one work unit packs keys block by block, and a longer one packs them all.
template <class E>
void LshForward<E>::place_engine(ScratchPlanner<Per::worker>& worker) {
  const Problem& p = call_.problem;
  const SegmentSlots most = largest_segment(sizes_, p, hashed_.shared());
  worker.place(output_, {most.query_rows(), p.value_dim});
  worker.place(lse_, {most.query_rows()});
  worker.place(rows_attended_, {most.query_rows()});
  PairMask mask;
  AttentionOptions options = engine_options(call_);
  options.masks = {&mask};
  size_t bytes = 0;
  const auto consider = [&](int64_t heads, int64_t queries, int64_t keys) {
    const auto rows = [&](int64_t count, int64_t dims) {
      return TensorView(static_cast<E*>(nullptr), {heads, count, dims});
    };
    bytes = std::max(
        bytes, rapt::workspace_bytes(rows(queries, p.head_dim), rows(keys, p.head_dim),
                                     rows(keys, p.value_dim), options, engine_context(call_)));
  };
  if (hashed_.shared()) {
    for (const int64_t heads : {int64_t{1}, most.heads}) consider(heads, most.queries, most.keys);
  } else {
    // Few queries have a route of their own from some number of keys on, with less scratch.
    const auto consider_queries = [&](int64_t queries) {
      for (const int64_t keys : {std::min(kLeastKeysOfFew - 1, most.keys), most.keys})
        consider(1, queries, keys);
    };
    consider_queries(std::min<int64_t>(1, most.queries));
    for (int64_t queries = kQueryStep; queries < most.queries; queries += kQueryStep)
      consider_queries(queries);
    consider_queries(most.queries);
  }
  worker.place(engine_, {static_cast<int64_t>(bytes)});
}

template <class E>
void LshForward<E>::clear(int64_t task, std::byte* memory) const noexcept {
  const int64_t begin = task * kHashedRows;
  const int64_t count = std::min(kHashedRows, call_.problem.q_len - begin);
  std::fill_n(top_.in(memory) + begin, count, -std::numeric_limits<E>::infinity());
  std::fill_n(total_.in(memory) + begin, count, E(0));
  std::fill_n(attended_.in(memory) + begin, count, uint8_t{0});
}

template <class E>
void LshForward<E>::add_row(int64_t query, const E* output, E lse,
                            std::byte* memory) const noexcept {
  const int64_t dims = call_.problem.value_dim;
  E* const sum = sum_.in(memory, query);
  E& top = top_.in(memory)[query];
  E& total = total_.in(memory)[query];
  if (uint8_t& attended = attended_.in(memory)[query]; !attended) {
    attended = 1;
    std::copy_n(output, dims, sum);
    top = lse, total = lse == -std::numeric_limits<E>::infinity() ? E(0) : E(1);
  } else if (lse <= top) {
    // Without a finite score so far, both are -inf.
    const E weight = total == 0 ? E(1) : std::exp(lse - top);
    for (int64_t d = 0; d < dims; ++d) sum[d] += weight * output[d];
    if (total != 0) total += weight;
  } else {
    const E weight = total == 0 ? E(1) : std::exp(top - lse);
    for (int64_t d = 0; d < dims; ++d) sum[d] = weight * sum[d] + output[d];
    top = lse, total = weight * total + 1;
  }
}

template <class E>
void LshForward<E>::add(const Segment<E>& segment, std::byte* memory,
                        std::byte* worker) const noexcept {
  const int64_t rows = segment.slots().query_rows(), dims = call_.problem.value_dim;
  const int32_t* const positions = segment.query_positions();
  E* output = output_.in(worker);
  const E* const lse = lse_.in(worker);
  const uint8_t* const attended = rows_attended_.in(worker);
  const E* const sums = sum_.in(memory);
  for (int64_t i = 0; i < rows; ++i, output += dims) {
    if (i + 8 < rows && positions[i + 8] >= 0)
      for (int64_t d = 0; d < dims; d += static_cast<int64_t>(64 / sizeof(E)))
        __builtin_prefetch(sums + positions[i + 8] * dims + d, 1);
    if (positions[i] < 0 || !attended[i]) continue;
    const bool weightless =
        !(lse[i] > -std::numeric_limits<E>::infinity()) && segment.has_no_finite_score(i, output);
    add_row(positions[i], output, weightless ? -std::numeric_limits<E>::infinity() : lse[i],
            memory);
  }
}

template <class E>
bool LshForward<E>::run_engine(const Segment<E>& segment, std::byte* worker,
                               FirstError& error) const noexcept {
  const SegmentSlots& slots = segment.slots();
  AttentionOptions options = engine_options(call_);
  options.masks = {&segment.mask()};
  AttentionOutputs outputs;
  outputs.state.output =
      TensorView(output_.in(worker), {slots.heads, slots.queries, call_.problem.value_dim});
  outputs.state.statistic = TensorView(lse_.in(worker), {slots.heads, slots.queries});
  try {
    scaled_dot_product_attention(segment.query(), segment.key(), segment.value(), options, outputs,
                                 {engine_.in(worker), static_cast<size_t>(engine_.count())},
                                 engine_context(call_));
  } catch (...) {
    error.keep();
    return false;
  }
  return true;
}

template <class E>
void LshForward<E>::run_segment(int64_t head, int64_t round, int64_t nth, std::byte* memory,
                                std::byte* worker, FirstError& error) const noexcept {
  Segment<E> segment(call_, lsh_, sizes_, hashed_, segment_, head, round, memory, worker);
  for (int64_t piece = 0; segment.gather(nth, piece); ++piece) {
    uint8_t* const attended = rows_attended_.in(worker);
    std::fill_n(attended, segment.slots().query_rows(), uint8_t{0});
    segment.mask().attended = attended;
    if (!run_engine(segment, worker, error)) return;
    add(segment, memory, worker);
  }
}

// A shared query without another key has its own value; its score is scale q q / |q|. Softmax of a
// score that is not finite is NaN.
template <class E>
void LshForward<E>::attend_to_self(int64_t head, int64_t query, std::byte* memory) const noexcept {
  const DenseRows<E> rows = hashed_.query_rows(head, memory);
  const DenseRows<E> values = hashed_.value_rows(head, memory);
  const E inverse = hashed_.inverse_lengths(memory)[query];
  const E* const row = rows.data + query * rows.stride;
  double score = 0;
  for (int64_t d = 0; d < call_.problem.head_dim; ++d)
    score += static_cast<double>(row[d]) * (row[d] * inverse);
  const int64_t times = lsh_.duplicates == LshDuplicates::count_all ? sizes_.rounds : 1;
  E& lse = top_.in(memory)[query];
  lse = static_cast<E>(call_.problem.scale * score + std::log(static_cast<double>(times)));
  E* const sum = sum_.in(memory, query);
  if (std::isfinite(lse)) {
    std::copy_n(values.data + query * values.stride, call_.problem.value_dim, sum);
  } else {
    lse = std::numeric_limits<E>::quiet_NaN();
    std::fill_n(sum, call_.problem.value_dim, lse);
  }
  total_.in(memory)[query] = 1;
}

template <class E>
void LshForward<E>::finish(int64_t head, int64_t task, const Outputs& outputs,
                           std::byte* memory) const noexcept {
  const Problem& p = call_.problem;
  const int64_t begin = task * kHashedRows, end = std::min(begin + kHashedRows, p.q_len);
  const KeyReach reach = call_.reach(head);
  E* const total = total_.in(memory);
  for (int64_t i = begin; i < end; ++i) {
    E* const sum = sum_.in(memory, i);
    if (attended_.in(memory)[i]) {
      if (total[i] == 0) {  // softmax of scores that are all -inf
        top_.in(memory)[i] = std::numeric_limits<E>::quiet_NaN(), total[i] = 1;
        std::fill_n(sum, p.value_dim, top_.in(memory)[i]);
      }
    } else if (hashed_.shared() && i < reach.keys && i < reach.end(i)) {
      attend_to_self(head, i, memory);
    } else {
      std::fill_n(sum, p.value_dim, E(0));
    }
    if (total[i] != 0 && total[i] != 1)
      for (int64_t d = 0; d < p.value_dim; ++d) sum[d] /= total[i];
  }
  if (outputs.output.data) {
    const TensorView out = matrix_of(outputs.output, p, head, p.q_len, p.value_dim);
    kernels<E>().gradients.store_key_rows[static_cast<int>(out.dtype)](
        sum_.in(memory, begin), p.value_dim, end - begin, p.value_dim, E(1),
        static_cast<std::byte*>(out.data) + begin * out.strides[0] * size_of(out.dtype),
        out.strides[0], out.strides[1]);
  }
  if (outputs.statistic.data) {
    const TensorView lse = vector_of(outputs.statistic, p, head, p.q_len);
    for (int64_t i = begin; i < end; ++i)
      static_cast<E*>(lse.data)[i * lse.strides[0]] = total[i] == 0
                                                          ? -std::numeric_limits<E>::infinity()
                                                          : top_.in(memory)[i] + std::log(total[i]);
  }
}

template <class E>
void LshForward<E>::run(const Outputs& outputs, std::byte* scratch) const {
  const int64_t heads = call_.problem.heads,
                segments = hashed_.shared() ? sizes_.most_segments() : hashed_.most_runs();
  const int64_t tasks_of_head = 1 + hashed_.tasks_of_rows() + sizes_.rounds * (1 + segments) +
                                2 * blocks() + captures_.tasks_of_weights() +
                                captures_.tasks_of_map();
  TaskRun tasks(call_.context, heads * tasks_of_head);
  FirstError error;
  for (int64_t first = 0; first < heads; first += lane_count_) {
    const int64_t lanes = std::min(lane_count_, heads - first);
    // Calls step(head, task, memory of the head, scratch of the worker) for `count` tasks per head.
    const auto each = [&](int64_t count, const auto& step) {
      tasks.run(lanes * count, workers_, threads_.to_executor(), [&](int64_t task, int worker) {
        const int64_t nth = task / count;
        step(first + nth, task % count, lane(scratch, nth),
             scratch_of_workers_.nth(scratch, worker));
      });
      error.rethrow();
    };
    each(1, [&](int64_t head, int64_t, std::byte* memory, std::byte*) {
      hashed_.draw_rotations(head, memory);
    });
    each(hashed_.tasks_of_rows(),
         [&](int64_t head, int64_t task, std::byte* memory, std::byte* worker) {
           hashed_.hash_rows(head, task, memory, worker);
         });
    each(blocks(),
         [&](int64_t, int64_t task, std::byte* memory, std::byte*) { clear(task, memory); });
    each(hashed_.tasks_of_sort(),
         [&](int64_t head, int64_t round, std::byte* memory, std::byte* worker) {
           hashed_.sort(head, round, memory, worker);
         });
    for (int64_t round = 0; round < sizes_.rounds; ++round)
      each(segments, [&](int64_t head, int64_t nth, std::byte* memory, std::byte* worker) {
        run_segment(head, round, nth, memory, worker, error);
      });
    each(blocks(), [&](int64_t head, int64_t task, std::byte* memory, std::byte*) {
      finish(head, task, outputs, memory);
    });
    if (captures_.tasks_of_weights() > 0)
      each(captures_.tasks_of_weights(),
           [&](int64_t head, int64_t task, std::byte* memory, std::byte* worker) {
             captures_.write_weights(head, task, outputs, memory, worker);
           });
    if (captures_.tasks_of_map() > 0)
      each(captures_.tasks_of_map(),
           [&](int64_t head, int64_t task, std::byte* memory, std::byte* worker) {
             captures_.write_map(head, task, outputs, memory, worker);
           });
  }
}

template class LshForward<float>;
template class LshForward<double>;

}  // namespace rapt
