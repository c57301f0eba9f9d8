// The pass that transforms keys, before all other passes.
#include "attention/rows/transform_keys.h"

#include <algorithm>

#include "attention/plan/key_pass.h"

namespace rapt {
namespace {

// Rows per task: about 50 us of work at head_dim 64.
constexpr int64_t kTaskRows = 1024;

// The index of the sequence that contains a key.
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

// Transforms the keys [begin, end) of one matrix.
template <class E>
void transform_rows(const ForwardCall<E>& call, const RowTransformer<E>& changer, int64_t matrix,
                    int64_t begin, int64_t end) noexcept {
  const Problem& p = call.problem;
  const RowTransform& c = p.rows;
  int64_t index[kMaxRank];  // of the first head that has it
  int64_t rest = matrix;
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    index[i] = rest % c.copies[i];
    rest /= c.copies[i];
    if (i == p.leading_rank - 1) index[i] *= p.key.heads_per_group;
  }
  const Operand& from = c.original_key;
  const int64_t size = size_of(from.dtype);
  std::byte* const source = from.at(from.offset_of(index, p.leading_rank));
  std::byte* const target = call.key.at(matrix * p.k_len * p.head_dim);
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

template <class E>
void transform_keys(const ForwardCall<E>& call, const RowTransformPlaces<E>& places,
                    const RepeatedMemory& workers, const Context& context) {
  const Problem& p = call.problem;
  // The angle tables serve the queries, too.
  write_row_transform(p.rows, p.head_dim, call.at(places.angles));
  if (!p.rows.transforms_key || p.k_len == 0) return;
  const int64_t per_matrix = ceil_div(p.k_len, kTaskRows);
  run_key_pass(call, workers, context, p.rows.transformed_matrices * per_matrix,
               [&](int64_t task, std::byte* scratch) {
                 const int64_t begin = task % per_matrix * kTaskRows;
                 const RowTransformer<E> changer(call.kernels.table, p.rows, p.head_dim, places,
                                                 call.workspace, scratch);
                 transform_rows(call, changer, task / per_matrix, begin,
                                std::min(begin + kTaskRows, p.k_len));
               });
}

template void transform_keys(const ForwardCall<float>&, const RowTransformPlaces<float>&,
                             const RepeatedMemory&, const Context&);
template void transform_keys(const ForwardCall<double>&, const RowTransformPlaces<double>&,
                             const RepeatedMemory&, const Context&);

}  // namespace rapt
