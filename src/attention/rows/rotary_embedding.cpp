// The public functions of rotary embedding: rotary_embedding() and its backward pass.
#include <algorithm>
#include <span>
#include <string>

#include "attention/call/output_memory.h"
#include "attention/rows/row_transformer.h"
#include "base/call_memory.h"

namespace rapt {
namespace {

constexpr int64_t kLargestDim = int64_t{1} << 32;

void check_rows(const char* name, const TensorView& rows) {
  if (!rows.defined()) throw Error(ErrorCode::argument, std::string(name) + " is missing");
  if (rows.rank < 2 || rows.rank > kMaxRank)
    throw Error(ErrorCode::shape, std::string(name) + " has rank " + std::to_string(rows.rank) +
                                      "; expected 2 to " + std::to_string(kMaxRank) +
                                      ": [..., n, head_dim]");
  if (static_cast<int>(rows.dtype) > static_cast<int>(DType::f16))
    throw Error(ErrorCode::dtype, std::string(name) + " is " + name_of(rows.dtype) +
                                      "; expected f32, f64, bf16 or f16");
  element_count(rows.dims());
  if (rows.shape[rows.rank - 1] > kLargestDim)
    throw Error(ErrorCode::overflow, std::string(name) + " " + to_string(rows.dims()) +
                                         ": head_dim may be at most 2^32");
  extent_of(name, rows);
  check_alignment(name, rows);
  if (!rows.data && !rows.empty())
    throw Error(ErrorCode::argument, std::string(name) + " " + to_string(rows.dims()) +
                                         " has elements but a null data pointer");
}

bool same_memory(const TensorView& a, const TensorView& b) {
  if (a.data != b.data) return false;
  for (int i = 0; i < a.rank; ++i)
    if (a.shape[i] > 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

// The memory of a call: angles and the scratch of one worker.
template <class E>
struct RotationMemory {
  RowTransformPlaces<E> places;
  RepeatedMemory worker;
  size_t bytes;

  RotationMemory(const Problem& p, const KernelTable<E>& table) {
    ScratchPlanner<Per::call> of_call;
    ScratchPlanner<Per::worker> of_worker;
    places.reserve(p, table, of_call, of_worker);
    worker = of_call.repeat(of_worker, 1);
    bytes = of_call.total();
  }
};

// A problem of which only leading dimensions, dtype and row transform are set.
Problem rotation_problem(const TensorView& rows, const RowTransform& change) {
  Problem p;
  p.leading_rank = rows.rank - 2;
  std::copy_n(rows.shape, p.leading_rank, p.leading);
  p.heads = element_count(p.leading_dims());
  p.rows = change, p.head_dim = rows.shape[rows.rank - 1];
  return p;
}

template <class E>
void rotate_all(const TensorView& rows, const RowTransform& change, bool inverse,
                const TensorView& output, std::span<std::byte> workspace) {
  const KernelTable<E>& table = kernels<E>();
  const Problem p = rotation_problem(rows, change);
  Operand from, to;
  take_operand(rows, p, from);
  take_operand(output, p, to);
  const int64_t length = rows.shape[rows.rank - 2], head_dim = p.head_dim;

  const RotationMemory<E> memory(p, table);
  Tensor own;
  if (workspace.empty()) {
    own = Tensor(DType::u8, {static_cast<int64_t>(memory.bytes)});
    workspace = {static_cast<std::byte*>(own.data()), memory.bytes};
  }
  const Workspace scratch(workspace, memory.bytes);
  std::byte* const bytes = scratch.begin();
  write_row_transform(change, head_dim, memory.places.angles.in(bytes));
  const RowTransformer<E> changer(table, change, head_dim, memory.places, bytes,
                                  memory.worker.nth(bytes, 0));
  int64_t index[kMaxRank];
  for (int64_t head = 0; head < p.heads; ++head) {
    p.index_of(head, index);
    std::byte* const source = from.at(from.offset_of(index, p.leading_rank));
    std::byte* const target = to.at(to.offset_of(index, p.leading_rank));
    for (int64_t row = 0; row < length; row += changer.width()) {
      const RowPlace place{
          index, p.leading_rank, row, {row, 1, std::min(changer.width(), length - row)}};
      const RowsAt before{source + row * from.row_stride * size_of(from.dtype), from.dtype,
                          from.row_stride, from.dim_stride};
      const RowsAt after{target + row * to.row_stride * size_of(to.dtype), to.dtype, to.row_stride,
                         to.dim_stride};
      if (inverse)
        changer.transform_back(before, {}, &change.query, place, nullptr, after);
      else
        changer.change(before, &change.query, {}, place, after);
    }
  }
}

void rotate(const char* name, const TensorView& rows, const Rotary& rotary,
            const RotaryPositions& given, bool inverse, const char* output_name,
            const TensorView& output, std::span<std::byte> workspace = {}) {
  check_rows(name, rows);
  const int64_t length = rows.shape[rows.rank - 2], head_dim = rows.shape[rows.rank - 1];
  RowTransform change;
  change.rotary = &rotary;
  change.pairs = check_rotary(rotary, head_dim);
  take_positions("rotary", rotary, given, change.pairs,
                 Shape(rows.shape, static_cast<size_t>(rows.rank - 2)), length, length, rows.dtype,
                 change.query);
  if (!output.defined()) throw Error(ErrorCode::argument, std::string(output_name) + " is missing");
  OutputMemory memory;
  memory.add(output_name, output,
             check_output_tensor(output_name, output, rows.dims(), rows.dtype));
  if (!same_memory(rows, output)) memory.check_apart(name, extent_of(name, rows));
  memory.check_apart_from_rotary(rotary, given);
  if (rows.empty()) return;
  if (rows.dtype == DType::f64)
    rotate_all<double>(rows, change, inverse, output, workspace);
  else
    rotate_all<float>(rows, change, inverse, output, workspace);
}

Tensor rotated(const char* name, const TensorView& rows, const Rotary& rotary,
               const RotaryPositions& positions, bool inverse) {
  check_rows(name, rows);
  Tensor output(rows.dtype, rows.dims());
  rotate(name, rows, rotary, positions, inverse, "output", output);
  return output;
}

}  // namespace

Tensor rotary_embedding(const TensorView& rows, const Rotary& rotary,
                        const RotaryPositions& positions) {
  return rotated("rows", rows, rotary, positions, false);
}
void rotary_embedding(const TensorView& rows, const Rotary& rotary,
                      const RotaryPositions& positions, const TensorView& output,
                      std::span<std::byte> workspace) {
  rotate("rows", rows, rotary, positions, false, "output", output, workspace);
}
size_t rotary_workspace_bytes(const TensorView& rows, const Rotary& rotary) {
  if (!rows.defined() || rows.rank < 2 || rows.rank > kMaxRank)
    throw Error(ErrorCode::shape,
                "rows " + to_string(rows.dims()) + "; expected [..., n, head_dim]");
  RowTransform change;
  change.rotary = &rotary;
  change.pairs = check_rotary(rotary, rows.shape[rows.rank - 1]);
  const Problem p = rotation_problem(rows, change);
  return rows.dtype == DType::f64 ? RotationMemory<double>(p, kernels<double>()).bytes
                                  : RotationMemory<float>(p, kernels<float>()).bytes;
}

Tensor rotary_embedding_backward(const TensorView& d_output, const Rotary& rotary,
                                 const RotaryPositions& positions) {
  return rotated("d_output", d_output, rotary, positions, true);
}
void rotary_embedding_backward(const TensorView& d_output, const Rotary& rotary,
                               const RotaryPositions& positions, const TensorView& d_rows) {
  rotate("d_output", d_output, rotary, positions, true, "d_rows", d_rows);
}

}  // namespace rapt
