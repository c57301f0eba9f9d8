// The conductor of the forward pass. A task is a few tiles of queries of one head; it walks once
// over the blocks of keys that any of them sees (whole-row normalisers: twice), and every block
// serves all tiles while it is in the cache.
#include "attention/forward.h"

#include <algorithm>
#include <bit>
#include <mutex>

#include "attention/visible.h"

namespace rapt {
namespace {

constexpr double kLog2E = 1.4426950408889634074;

template <class E>
struct QueryTile {
  int vectors = 1;
  int64_t queries = 0;      // padded to whole vectors
  Positions positions;      // of the real ones
  KeyRange range = {0, 0};  // no key outside is visible
  uint64_t seen = 0;        // bit i: query i has seen a key
  E* query_t = nullptr;     // [head_dim][queries]
  E* output_t = nullptr;    // [value_dim][queries]
  E* extra_t = nullptr;     // [value_dim][queries]
  Tile<E> hooks;
};

enum class Finite : uint8_t { unknown, yes, no };

template <class E>
struct KeyBlock {
  int64_t begin = 0, end = 0;
  const E* key = nullptr;  // [end - begin, head_dim]
  const E* value = nullptr;
  int64_t key_stride = 0, value_stride = 0;
  Finite finite = Finite::unknown;  // are all values?
};

template <class E>
class Task {
 public:
  Task(const ForwardCall<E>& call, const CancelToken* cancel, int64_t task, int worker)
      : call_(call), p_(call.problem), n_(call.normalizer), cancel_(cancel) {
    std::byte* scratch = call.workspace + static_cast<size_t>(worker) * call.layout.bytes;
    const auto at = [&](size_t offset) { return reinterpret_cast<E*>(scratch + offset); };
    const ScratchLayout& l = call.layout;
    query_t_ = at(l.query_t), output_t_ = at(l.output_t), extra_t_ = at(l.extra_t);
    scores_ = at(l.scores), second_ = at(l.second);
    state_ = at(l.state), candidates_ = at(l.candidates);
    rows_ = at(l.rows);
    packed_key_ = at(l.key), packed_value_ = at(l.value);
    bits_ = reinterpret_cast<uint64_t*>(scratch + l.bits);
    bound_ = reinterpret_cast<BoundMask*>(scratch + l.masks);

    // Head by head; within one, the tasks with most causal keys first.
    head_ = task / call.tiling.tasks_per_head;
    const int64_t chunk = call.tiling.tasks_per_head - 1 - task % call.tiling.tasks_per_head;
    first_query_ = chunk * call.tiling.task_queries;
    queries_ = std::min(call.tiling.task_queries, p_.q_len - first_query_);
    p_.index_of(head_, index_);
  }

  void run() noexcept {
    place_ = {index_, p_.leading_rank, p_.q_len, p_.k_len};
    const Visible visible(call_.masks, place_, bound_);
    key_ = static_cast<const E*>(p_.key.data) + p_.key.offset_of(index_, p_.leading_rank);
    value_ = static_cast<const E*>(p_.value.data) + p_.value.offset_of(index_, p_.leading_rank);
    bias_ = !p_.has_bias
                ? nullptr
                : static_cast<const E*>(p_.bias.data) + p_.bias.offset_of(index_, p_.leading_rank);
    natural_ = p_.has_bias || !call_.scores.empty() || !n_.takes_log2;

    const Tiling& t = call_.tiling;
    const int64_t tiles = (queries_ + t.tile_queries - 1) / t.tile_queries;
    QueryTile<E> tile[kMostTiles];
    KeyRange range{p_.k_len, 0};
    for (int64_t i = 0; i < tiles; ++i) {
      begin_tile(tile[i], i, visible);
      if (tile[i].range.begin == tile[i].range.end) continue;
      range = {std::min(range.begin, tile[i].range.begin), std::max(range.end, tile[i].range.end)};
    }
    for (bool more = n_.whole_row; more && !stopped();) {
      for_each_block(range, tile, tiles, visible, &Task::collect);
      more = false;
      for (int64_t i = 0; i < tiles; ++i) more |= n_.solve(call_.normalizer_object, tile[i].hooks);
    }
    for_each_block(range, tile, tiles, visible, &Task::apply);
    if (stopped()) return;
    for (int64_t i = 0; i < tiles; ++i) finish_tile(tile[i]);
    if (call_.outputs.weights.data) write_weights(range, tile, tiles, visible);
  }

  // Tiles of a task: tiling_of() gives at most 192 queries, in tiles of at least 8.
  static constexpr int kMostTiles = 24;

 private:
  bool stopped() const noexcept { return cancel_ && cancel_->cancelled(); }

  void begin_tile(QueryTile<E>& tile, int64_t i, const Visible& visible) noexcept {
    const Tiling& t = call_.tiling;
    const int64_t offset = i * t.tile_queries;
    const int64_t rows = std::min(t.tile_queries, queries_ - offset);
    tile.vectors = t.vectors_for(rows);
    tile.queries = tile.vectors * t.lanes;
    tile.positions = {first_query_ + offset, 1, rows};
    tile.range = visible.key_range(tile.positions);
    tile.query_t = query_t_ + offset * p_.head_dim;
    tile.output_t = output_t_ + offset * p_.value_dim;
    tile.extra_t = extra_t_ + offset * p_.value_dim;
    tile.hooks.state = state_ + offset * n_.state_rows;
    tile.hooks.candidates = candidates_ + offset * n_.candidates;
    tile.hooks.block_max = block_max();
    tile.hooks.factor = factor();
    tile.hooks.queries = tile.queries;
    tile.hooks.log2_units = !natural_;
    tile.hooks.query_positions = tile.positions;
    tile.hooks.head = &place_;

    const E* query = static_cast<const E*>(p_.query.data) +
                     p_.query.offset_of(index_, p_.leading_rank) +
                     tile.positions.start * p_.query.row_stride;
    call_.table.pack_queries(query, p_.query.row_stride, p_.query.dim_stride, rows, p_.head_dim,
                             static_cast<E>(natural_ ? p_.scale : p_.scale * kLog2E), tile.queries,
                             tile.query_t);
    std::fill_n(tile.output_t, p_.value_dim * tile.queries, E(0));
    if (n_.extra) std::fill_n(tile.extra_t, p_.value_dim * tile.queries, E(0));
    n_.begin(call_.normalizer_object, tile.hooks);
  }

  using Step = void (Task::*)(QueryTile<E>&, KeyBlock<E>&, int64_t first) noexcept;

  // Calls `step` with the masked scores of every tile and block that see each other.
  void for_each_block(KeyRange range, QueryTile<E>* tile, int64_t tiles, const Visible& visible,
                      Step step) noexcept {
    const int64_t length = call_.tiling.block_keys;
    for (int64_t begin = range.begin / length * length; begin < range.end; begin += length) {
      if (stopped()) return;
      KeyBlock<E> block = load_block(begin, std::min(begin + length, p_.k_len));
      for (int64_t i = 0; i < tiles; ++i) {
        const int64_t first = scores_of(tile[i], block, visible);
        if (tile[i].hooks.keys > 0) (this->*step)(tile[i], block, first);
      }
    }
  }

  // The block's rows, made dense where the caller's are not.
  KeyBlock<E> load_block(int64_t begin, int64_t end) noexcept {
    KeyBlock<E> block;
    block.begin = begin, block.end = end;
    block.key = key_ + begin * p_.key.row_stride, block.key_stride = p_.key.row_stride;
    block.value = value_ + begin * p_.value.row_stride, block.value_stride = p_.value.row_stride;
    if (p_.key.dim_stride != 1) {
      pack(block.key, p_.key, end - begin, p_.head_dim, packed_key_);
      block.key = packed_key_, block.key_stride = p_.head_dim;
    }
    if (p_.value.dim_stride != 1) {
      pack(block.value, p_.value, end - begin, p_.value_dim, packed_value_);
      block.value = packed_value_, block.value_stride = p_.value_dim;
    }
    return block;
  }

  static void pack(const E* rows, const Operand& strides, int64_t count, int64_t dims,
                   E* dense) noexcept {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t d = 0; d < dims; ++d)
        *dense++ = rows[j * strides.row_stride + d * strides.dim_stride];
  }

  // Computes the masked scores of the keys of `block` that the tile sees, and says in hooks.keys
  // how many; returns the first of them, counted within the block. partial_ and bits_ tell which
  // pairs are allowed.
  int64_t scores_of(QueryTile<E>& tile, const KeyBlock<E>& block, const Visible& visible) noexcept {
    tile.hooks.keys = 0;
    int64_t begin = std::max(block.begin, tile.range.begin);
    int64_t end = std::min(block.end, tile.range.end);
    if (begin >= end) return 0;
    Positions keys{begin, 1, end - begin};
    tile_bits_ = bits_;
    const Cover cover = visible.cover(tile.positions, keys, bits_);
    if (cover == Cover::none) return 0;
    partial_ = cover == Cover::some;
    if (partial_) {  // no work for keys at either end that nobody sees
      while (begin < end && tile_bits_[0] == 0) ++begin, ++tile_bits_;
      while (begin < end && tile_bits_[end - begin - 1] == 0) --end;
      if (begin == end) return 0;
      keys = {begin, 1, end - begin};
    }

    const int64_t first = begin - block.begin;
    call_.table.products[tile.vectors - 1].scores(
        tile.query_t, block.key + first * block.key_stride, block.key_stride, keys.count,
        p_.head_dim, scores_, block_max());
    tile.hooks.scores = scores_;
    tile.hooks.second_weights = second_;
    tile.hooks.keys = keys.count;
    tile.hooks.key_positions = keys;
    if (natural_) change_scores(tile, keys);
    uint64_t seen = low_bits(tile.positions.count);
    if (partial_) {
      call_.table.exclude(scores_, tile_bits_, keys.count, tile.queries, block_max());
      seen = 0;
      for (int64_t j = 0; j < keys.count; ++j) seen |= tile_bits_[j];
    }
    tile.seen |= seen;
    return first;
  }

  // Score hooks and bias, in natural units. The maximum is stale afterwards, so the tile counts as
  // partial and exclude() finds it again.
  void change_scores(QueryTile<E>& tile, Positions keys) noexcept {
    if (call_.scores.empty() && !bias_) return;
    if (!partial_) std::fill_n(tile_bits_, keys.count, low_bits(tile.positions.count));
    partial_ = true;
    for (const ScoreRef& score : call_.scores)
      call_.table.scores[score.index].apply(score.object, tile.hooks);
    if (bias_)
      call_.table.add_bias(
          scores_,
          bias_ + tile.positions.start * p_.bias.row_stride + keys.start * p_.bias.dim_stride,
          p_.bias.row_stride, p_.bias.dim_stride, keys.count, tile.positions.count, tile.queries,
          tile_bits_);
  }

  void collect(QueryTile<E>& tile, KeyBlock<E>&, int64_t) noexcept {
    n_.collect(call_.normalizer_object, tile.hooks);
  }

  void apply(QueryTile<E>& tile, KeyBlock<E>& block, int64_t first) noexcept {
    tile.hooks.zero = tile.hooks.rescale = false;
    n_.apply(call_.normalizer_object, tile.hooks);
    if (tile.hooks.zero && !tile.hooks.rescale) return;
    add_values(tile, block, first, scores_, tile.output_t);
    if (n_.extra) add_values(tile, block, first, second_, tile.extra_t);
  }

  void add_values(QueryTile<E>& tile, KeyBlock<E>& block, int64_t first, const E* weights,
                  E* output_t) noexcept {
    const E* value = block.value + first * block.value_stride;
    const E* rescale = tile.hooks.rescale ? factor() : nullptr;
    // An excluded pair has weight 0, but 0 * NaN is NaN. Only tiles with excluded pairs can be
    // hurt, and the values of a block are looked at once for all tiles of the task.
    if (partial_ && block.finite == Finite::unknown)
      block.finite = call_.table.all_finite(block.value, block.value_stride,
                                            block.end - block.begin, p_.value_dim)
                         ? Finite::yes
                         : Finite::no;
    if (partial_ && block.finite == Finite::no)
      call_.table.output_of_bits(weights, tile_bits_, value, block.value_stride, tile.hooks.keys,
                                 p_.value_dim, rescale, tile.queries, output_t);
    else
      call_.table.products[tile.vectors - 1].output(
          weights, value, block.value_stride, tile.hooks.keys, p_.value_dim, rescale, output_t);
  }

  void finish_tile(QueryTile<E>& tile) noexcept {
    const Outputs& o = call_.outputs;
    const int64_t rows = tile.positions.count, start = tile.positions.start;
    const Finish<E> result{inverse(), extra_inverse(),
                           o.statistic.data ? rows_ + 4 * call_.tiling.tile_queries : nullptr};
    n_.finish(call_.normalizer_object, tile.hooks, result);
    const auto store = [&](const Operand& target, const E* tile_t, const E* factor_of_row) {
      E* out = static_cast<E*>(target.data) + target.offset_of(index_, p_.leading_rank) +
               start * target.row_stride;
      call_.table.store_rows(tile_t, p_.value_dim, tile.queries, factor_of_row, tile.seen, rows,
                             out, target.row_stride, target.dim_stride);
    };
    store(o.output, tile.output_t, result.inverse);
    if (n_.extra && call_.extra.data) store(call_.extra, tile.extra_t, result.extra_inverse);
    if (!result.statistic) return;
    E* out = static_cast<E*>(o.statistic.data) + o.statistic.offset_of(index_, p_.leading_rank) +
             start * o.statistic.row_stride;
    for (int64_t i = 0; i < rows; ++i) out[i * o.statistic.row_stride] = result.statistic[i];
  }

  // Where this head's returned weights begin; null if it was not asked for.
  E* weights_of_head(int64_t nth_request) const noexcept {
    const WeightsRequest& request = *call_.weights_request;
    E* data = static_cast<E*>(call_.outputs.weights.data);
    const Operand& o = call_.outputs.weights;
    if (request.heads.empty())
      return nth_request == 0 ? data + o.offset_of(index_, p_.leading_rank) : nullptr;
    for (size_t i = 0; i < request.heads.size(); ++i)
      if (request.heads[i] == head_ && nth_request-- == 0)
        return data + static_cast<int64_t>(i) * o.lead_strides[0];
    return nullptr;
  }

  // A second pass over the scores, for the rows and heads asked for.
  void write_weights(KeyRange range, QueryTile<E>* tile, int64_t tiles,
                     const Visible& visible) noexcept {
    const RequestedWeights w = requested_weights(p_, call_.weights_request);
    const Operand& o = call_.outputs.weights;
    for (int64_t nth = 0; E* out = weights_of_head(nth); ++nth) {
      weights_out_ = out;
      weights_rows_ = {std::max(w.row_begin, first_query_),
                       std::min(w.row_end, first_query_ + queries_)};
      weights_first_ = w.row_begin;
      if (weights_rows_.begin >= weights_rows_.end) return;
      for (int64_t i = 0; i < tiles; ++i)  // tiles without a wanted row are left out
        if (tile[i].positions.start >= weights_rows_.end ||
            tile[i].positions.start + tile[i].positions.count <= weights_rows_.begin)
          tile[i].range = {0, 0};
      for (int64_t i = weights_rows_.begin; i < weights_rows_.end; ++i)
        for (int64_t j = 0; j < p_.k_len; ++j)
          out[(i - w.row_begin) * o.row_stride + j * o.dim_stride] = 0;
      for_each_block(range, tile, tiles, visible, &Task::store_weights);
    }
  }

  void store_weights(QueryTile<E>& tile, KeyBlock<E>&, int64_t) noexcept {
    const Operand& o = call_.outputs.weights;
    const int64_t begin = std::max(weights_rows_.begin, tile.positions.start);
    const int64_t end = std::min(weights_rows_.end, tile.positions.start + tile.positions.count);
    n_.weights(call_.normalizer_object, tile.hooks);
    if (partial_)  // an excluded pair has weight 0 even in a row that a NaN has spoilt
      for (int64_t j = 0; j < tile.hooks.keys; ++j)
        for (uint64_t left = ~tile_bits_[j] & low_bits(tile.positions.count); left;
             left &= left - 1)
          scores_[j * tile.queries + std::countr_zero(left)] = 0;
    const int64_t lane = begin - tile.positions.start;
    E* out = weights_out_ + (begin - weights_first_) * o.row_stride +
             tile.hooks.key_positions.start * o.dim_stride;
    call_.table.store_rows(scores_ + lane, tile.hooks.keys, tile.queries, nullptr,
                           tile.seen >> lane, end - begin, out, o.row_stride, o.dim_stride);
  }

  E* block_max() const noexcept { return rows_; }
  E* factor() const noexcept { return rows_ + call_.tiling.tile_queries; }
  E* inverse() const noexcept { return rows_ + 2 * call_.tiling.tile_queries; }
  E* extra_inverse() const noexcept { return rows_ + 3 * call_.tiling.tile_queries; }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const NormalizerKernels<E>& n_;
  const CancelToken* cancel_;
  E *query_t_, *output_t_, *extra_t_, *scores_, *second_, *state_, *candidates_, *rows_;
  E *packed_key_, *packed_value_;
  uint64_t* bits_;
  uint64_t* tile_bits_ = nullptr;  // bits_, from the first key that the tile sees
  BoundMask* bound_;
  int64_t head_, first_query_, queries_;
  Head place_;
  int64_t index_[kMaxRank] = {};
  const E *key_ = nullptr, *value_ = nullptr, *bias_ = nullptr;
  bool natural_ = false, partial_ = false;
  E* weights_out_ = nullptr;
  KeyRange weights_rows_ = {0, 0};
  int64_t weights_first_ = 0;
};

// What the tasks of a call share.
template <class E>
struct Run {
  const ForwardCall<E>& call;
  const Context& context;
  int64_t tasks;
  std::mutex mutex;  // of `ended` and the progress report
  int64_t ended = 0;
};

template <class E>
void run_task(void* argument, int64_t task, int worker) noexcept {
  auto& run = *static_cast<Run<E>*>(argument);
  if (run.context.cancel && run.context.cancel->cancelled()) return;
  Task<E>(run.call, run.context.cancel, task, worker).run();
  if (!run.context.progress.report) return;
  const std::lock_guard lock(run.mutex);
  run.context.progress.report(run.context.progress.user,
                              static_cast<double>(++run.ended) / static_cast<double>(run.tasks));
}

}  // namespace

template <class E>
void run_forward(const ForwardCall<E>& call, const Context& context) {
  Run<E> run{call, context, call.problem.heads * call.tiling.tasks_per_head, {}};
  if (context.executor) {
    context.executor->run(run.tasks, run_task<E>, &run);
  } else {
    for (int64_t task = 0; task < run.tasks; ++task) run_task<E>(&run, task, 0);
  }
  if (context.cancel && context.cancel->cancelled())
    throw Error(ErrorCode::cancelled, "cancelled by the caller; the outputs are not valid");
}

template void run_forward(const ForwardCall<float>&, const Context&);
template void run_forward(const ForwardCall<double>&, const Context&);

}  // namespace rapt
