#pragma once
// What the two passes of a gated recurrent unit share.
#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "rapt/nn/gru.h"
#include "rapt/product.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt::nn {

struct GruSizes {
  int64_t batch = 0, length = 0, in = 0, hidden = 0;
  int64_t layers = 1, per_layer = 1;  // directions of a layer
  DType dtype = DType::f32, computed = DType::f32;

  int64_t steps() const { return batch * length; }
  int64_t width() const { return per_layer * hidden; }
};

// The sizes of a call. Throws Error(argument, shape) if the layer is not complete or x has no
// rank 3.
GruSizes gru_sizes(const Gru& layer, const TensorView& x);

// Checks the parameters, x and the state.
void check_gru_call(const GruSizes& sizes, const Gru& layer, const TensorView& x,
                    const Gru::State& state);
// Checks h0, h_n or a gradient of them, if it is defined.
void check_gru_hidden(const GruSizes& sizes, const char* name, const TensorView& h, bool output);

// The sequences of a batch are cut into tasks, each of which goes through all steps: a row of a
// product has the same bits whatever rows are computed with it.
struct GruTasks {
  int64_t tasks = 1, most_rows = 0;
  int workers = 1;
  bool to_executor = false;

  int64_t begin(const GruSizes& sizes, int64_t task) const { return task * sizes.batch / tasks; }
};
GruTasks gru_tasks(const GruSizes& sizes, const Context& context);

// Scratch of the tasks in the computed type, and the packed weight_hh.
struct GruScratch {
  TensorView h;          // [tasks, most_rows, hidden]
  TensorView recurrent;  // [tasks, most_rows, 3 hidden]
  TensorView workspace;  // [tasks, bytes]
  TensorView packed;     // [bytes]
};
GruScratch take_gru_scratch(const GruSizes& sizes, const GruTasks& tasks, PackedFor use,
                            Arena& arena);

// The context of a product of a task: a thread of its own.
inline Context gru_step_context() {
  Context alone;
  alone.threads = 1;
  return alone;
}

// Part `i` of a dense tensor along its first dimension; of an absent one, absent.
inline TensorView part_of(const TensorView& all, int64_t i) {
  if (!all.defined()) return {};
  TensorView part = all;
  part.rank = all.rank - 1;
  for (int d = 0; d < part.rank; ++d)
    part.shape[d] = all.shape[d + 1], part.strides[d] = all.strides[d + 1];
  if (all.data)
    part.data = static_cast<std::byte*>(all.data) + i * all.strides[0] * size_of(all.dtype);
  return part;
}

inline std::span<std::byte> bytes_in(const TensorView& bytes) {
  return {static_cast<std::byte*>(bytes.data), static_cast<size_t>(bytes.count())};
}

// Columns [begin, end) of rows [..., columns], as a matrix.
inline TensorView columns_of(const TensorView& rows, int64_t begin, int64_t end) {
  return as_matrix(rows).slice(1, begin, end);
}

// The address of row (sequence, step) of [batch, length, columns], dense but for its last
// dimension.
inline std::byte* gru_row(const TensorView& rows, int64_t sequence, int64_t step) {
  return static_cast<std::byte*>(rows.data) +
         (sequence * rows.strides[0] + step * rows.strides[1]) * size_of(rows.dtype);
}

}  // namespace rapt::nn
