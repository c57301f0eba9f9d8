// The pass that packs keys and values, before the first query tile.
#include "attention/tiles/packed_keys.h"

#include <algorithm>

#include "attention/plan/key_pass.h"
#include "attention/tiles/attended_rows.h"
#include "attention/tiles/tile_places.h"

namespace rapt {
namespace {

// Key blocks per task, chosen as in transform_keys.cpp: packing a row is less work than
// transforming it.
constexpr int64_t kTaskBlocks = 32;

using Pack = void (*)(const void*, int64_t, int64_t, int64_t, int64_t, void*) noexcept;

// The work of one task: some blocks of a sequence, of one matrix of keys or values.
struct Piece {
  int64_t matrix, sequence, block;
};

// The nth piece. Each sequence of each matrix is cut into as many pieces as the longest one needs.
Piece piece_of(const Problem& p, int64_t nth, int64_t per_sequence) {
  const int64_t per_matrix = per_sequence * p.sequences;
  return {nth / per_matrix, nth % per_matrix / per_sequence, nth % per_sequence * kTaskBlocks};
}

// Packs the blocks of a piece, as far as some query may attend to them.
template <class E>
void pack_blocks(const ForwardCall<E>& call, const Operand& rows, int64_t dims, Pack pack,
                 const PackedRows<E>& to, const Piece& piece, std::byte* scratch) noexcept {
  const Problem& p = call.problem;
  const Sequence sequence = p.sequence(piece.sequence);
  const int64_t length = call.tiling.block_keys;
  const uint64_t attended = attended_blocks(call, to.matrices(), piece.matrix,
                                            {piece.sequence, piece.block, kTaskBlocks}, scratch);
  int64_t index[kMaxRank];
  to.matrices().first_head(p, piece.matrix, index);
  const int64_t first = rows.offset_of(index, p.leading_rank);
  const ExactRows<E> exact(call.kernels, call.layout.exact, scratch);
  for (int64_t n = 0; n < kTaskBlocks; ++n) {
    if (!(attended >> n & 1)) continue;
    const int64_t key = (piece.block + n) * length, count = std::min(length, sequence.k_len - key);
    const int64_t row = sequence.key_begin + key;
    const RowsAt from{rows.at(first + row * rows.row_stride), rows.dtype, rows.row_stride,
                      rows.dim_stride};
    pack(from.data, from.row_stride, from.dim_stride, count, dims, to.at(key));
    to.set_outside(key, count, exact.find(from, count, dims));
  }
}

}  // namespace

template <class E>
void pack_keys(const ForwardCall<E>& call, const Context& context) {
  const Problem& p = call.problem;
  const RouteKernels<E>& route = call.kernels.route;
  int64_t longest = 0;
  for (int64_t s = 0; s < p.sequences; ++s) longest = std::max(longest, p.sequence(s).k_len);
  const int64_t per_sequence = ceil_div(call.tiling.blocks(longest), kTaskBlocks);
  const PackedRows<E> keys = packed_keys(call), values = packed_values(call);
  const int64_t key_tasks = keys.matrices().count * p.sequences * per_sequence;
  const int64_t value_tasks = values.matrices().count * p.sequences * per_sequence;
  run_key_pass(call, call.layout.workers, context, key_tasks + value_tasks,
               [&](int64_t task, std::byte* scratch) {
                 const bool is_key = task < key_tasks;
                 const Piece piece = piece_of(p, is_key ? task : task - key_tasks, per_sequence);
                 PackedRows<E> to = is_key ? keys : values;
                 to.select(piece.matrix, p.sequence(piece.sequence).key_begin, piece.sequence);
                 pack_blocks(call, is_key ? call.key : p.value, is_key ? p.head_dim : p.value_dim,
                             is_key ? route.pack_keys : route.pack_values, to, piece, scratch);
               });
}

template void pack_keys(const ForwardCall<float>&, const Context&);
template void pack_keys(const ForwardCall<double>&, const Context&);

}  // namespace rapt
