// What happens to rows of queries and keys before they are multiplied: checks, and the pass over
// the keys.
#include "attention/row_change.h"

#include <algorithm>

#include "attention/resources.h"
#include "attention/rotary.h"
#include "attention/task_run.h"

namespace rapt {
namespace {

// Rows of a task: some 50 us of work at head_dim 64.
constexpr int64_t kTaskRows = 1024;

bool any(const RotaryPositions& positions) noexcept {
  return positions.values.defined() || positions.start != 0 || positions.step != 1;
}

// What nobody would look at is a mistake.
void check_use(const FusedRotary& fused) {
  if (!fused.embedding && (any(fused.query) || any(fused.key) || !fused.rotate_key))
    throw Error(ErrorCode::argument,
                "rotary: positions or rotated keys without an embedding; expected one in "
                "options.rotary");
  if (!fused.rotate_key && any(fused.key))
    throw Error(ErrorCode::argument,
                "rotary of keys: positions of keys that come rotated; expected none, nobody looks "
                "at them");
}

void take_rotary(const FusedRotary& fused, Problem& p) {
  RowChange& c = p.rows;
  c.rotary = fused.embedding;
  c.pairs = check_rotary(*c.rotary, p.head_dim);
  int64_t longest_query = 0, longest_key = 0;
  for (int64_t s = 0; s < p.sequences; ++s) {
    longest_query = std::max(longest_query, p.sequence(s).q_len);
    longest_key = std::max(longest_key, p.sequence(s).k_len);
  }
  take_positions("rotary of queries", *c.rotary, fused.query, c.pairs, p.leading_dims(), p.q_len,
                 longest_query, p.dtype, c.query);
  if (!fused.rotate_key) return;
  take_positions("rotary of keys", *c.rotary, fused.key, c.pairs, p.leading_dims(), p.k_len,
                 longest_key, p.dtype, c.key);
  c.turns_key = c.changes_key = true;
}

// One matrix of changed keys for all heads that share keys and positions.
void take_copy(Problem& p) {
  RowChange& c = p.rows;
  c.given_key = p.key;
  c.copied_matrices = 1;
  int64_t stride = p.k_len * p.head_dim;
  p.key.data = nullptr;
  p.key.row_stride = p.head_dim, p.key.dim_stride = 1;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    const bool head_axis = i == p.leading_rank - 1;
    if (c.turns_key && c.key.vary(i)) {
      c.copies[i] = p.leading[i];
      if (head_axis) p.key.heads_per_group = 1;
    } else if (p.key.lead_strides[i] == 0) {
      c.copies[i] = std::min<int64_t>(p.leading[i], 1);
    } else {
      c.copies[i] = head_axis ? p.leading[i] / p.key.heads_per_group : p.leading[i];
    }
    p.key.lead_strides[i] = c.copies[i] > 1 ? stride : 0;
    stride *= c.copies[i];
    c.copied_matrices *= c.copies[i];
  }
}

// Which sequence holds a key.
int64_t sequence_of(const Problem& p, int64_t key) noexcept {
  int64_t first = 0, last = p.sequences - 1;
  while (first < last) {
    const int64_t middle = first + (last - first) / 2;
    const Sequence s = p.sequence(middle);
    if (s.key_begin + s.k_len <= key)
      first = middle + 1;
    else
      last = middle;
  }
  return first;
}

// Keys [begin, end) of one matrix.
template <class E>
void change_rows(const Problem& p, const RowChanger<E>& changer, int64_t matrix, int64_t begin,
                 int64_t end) noexcept {
  const RowChange& c = p.rows;
  int64_t index[kMaxRank];  // of the first head that has it
  int64_t rest = matrix;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    index[i] = rest % c.copies[i];
    rest /= c.copies[i];
    if (i == p.leading_rank - 1) index[i] *= p.key.heads_per_group;
  }
  const Operand& from = c.given_key;
  const int64_t size = size_of(from.dtype);
  std::byte* const source = from.at(from.offset_of(index, p.leading_rank));
  std::byte* const target = p.key.at(matrix * p.k_len * p.head_dim);
  Sequence s = p.sequence(sequence_of(p, begin));
  for (int64_t row = begin; row < end;) {
    while (row >= s.key_begin + s.k_len) s = p.sequence(sequence_of(p, row));
    const int64_t count = std::min({changer.width(), end - row, s.key_begin + s.k_len - row});
    changer.change(
        {source + row * from.row_stride * size, from.dtype, from.row_stride, from.dim_stride},
        c.key_turns(), {}, {index, p.leading_rank, row, {row - s.key_begin, 1, count}},
        {target + row * p.head_dim * size, from.dtype, p.head_dim, 1});
    row += count;
  }
}

}  // namespace

void take_row_change(const AttentionOptions& options, Problem& p) {
  RowChange& c = p.rows;
  if (options.cosine) {
    check_parameters(Cosine::kDeclaration, &*options.cosine);
    c.cosine = c.changes_key = true;
    c.epsilon = options.cosine->epsilon;
  }
  check_use(options.rotary);
  if (options.rotary.embedding) take_rotary(options.rotary, p);
  if (!c.changes_key) return;
  take_copy(p);
  const int64_t copy[] = {c.copied_matrices, p.k_len, p.head_dim};
  element_count(copy);  // throws
}

template <class E>
void change_keys(const ForwardCall<E>& call, const Context& context) {
  const Problem& p = call.problem;
  if (!p.rows.any()) return;
  // Fills in the tables, for the queries, too.
  write_row_change(p.rows, p.head_dim, call.workspace + call.layout.angles);
  if (!p.rows.changes_key || p.k_len == 0) return;
  const int64_t per_matrix = ceil_div(p.k_len, kTaskRows);
  Context quiet = context;
  quiet.progress = {};  // the call's own tasks are told
  TaskRun run(quiet, 0);
  run.run(p.rows.copied_matrices * per_matrix, call.tiling.workers, call.tiling.to_executor,
          [&](int64_t task, int worker) noexcept {
            std::byte* const scratch = call.workspace + call.layout.workers +
                                       static_cast<size_t>(worker) * call.layout.worker_bytes;
            const int64_t begin = task % per_matrix * kTaskRows;
            change_rows(p, changer_of(call, scratch), task / per_matrix, begin,
                        std::min(begin + kTaskRows, p.k_len));
          });
}

template void change_keys(const ForwardCall<float>&, const Context&);
template void change_keys(const ForwardCall<double>&, const Context&);

}  // namespace rapt
