#include "rapt/nn/gated.h"

#include "base/tensor_memory.h"
#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "nn/leading.h"
#include "nn/row_tasks.h"
#include "rapt/product.h"

namespace rapt::nn {
namespace {

// Operations that an element takes, about.
constexpr double kGatedWork = 40;

// StridedRows at equal distances, each dense.
struct StridedRows {
  const char* name;
  std::byte* data = nullptr;  // null: absent
  int64_t count = 0, features = 0, stride = 0;
  int64_t element = 0;  // bytes

  std::byte* at(int64_t row) const { return data ? data + row * stride * element : nullptr; }
};

StridedRows strided_rows(const char* name, const TensorView& view, Shape expected, DType dtype) {
  if (!view.defined()) throw Error(ErrorCode::argument, std::string(name) + " is missing");
  const auto described = [&] { return std::string(name) + " " + to_string(view.dims()); };
  if (!std::equal(view.dims().begin(), view.dims().end(), expected.begin(), expected.end()))
    throw Error(ErrorCode::shape, described() + "; expected " + to_string(expected));
  if (view.dtype != dtype)
    throw Error(ErrorCode::dtype,
                described() + " is " + name_of(view.dtype) + "; expected " + name_of(dtype));
  if (!view.empty() && !view.data)
    throw Error(ErrorCode::argument, described() + " has elements but a null data pointer");
  extent_of(name, view);
  check_alignment(name, view);
  const TensorView matrix = as_matrix(view);
  if (matrix.shape[1] > 1 && matrix.strides[1] != 1)
    throw Error(ErrorCode::argument,
                described() + " is not dense along its last dimension; copy it (Tensor::copy_of)");
  StridedRows rows{.name = name, .data = static_cast<std::byte*>(matrix.data)};
  rows.count = matrix.shape[0], rows.features = matrix.shape[1];
  rows.stride = rows.count > 1 ? matrix.strides[0] : 0;
  rows.element = size_of(dtype);
  return rows;
}

StridedRows strided_output(const char* name, const TensorView& view, Shape expected, DType dtype) {
  if (!view.defined()) return {.name = name};
  check_output_tensor(name, view, expected, dtype);
  return strided_rows(name, view, expected, dtype);
}

// Throws Error(overlap) if rows of two tensors share memory. The halves of one tensor do not: their
// rows take turns at one distance.
void check_rows_apart(const TensorView& a, const StridedRows& of_a, const TensorView& b,
                      const StridedRows& of_b) {
  if (!of_a.data || !of_b.data || !extent_of(of_a.name, a).meets(extent_of(of_b.name, b))) return;
  const int64_t step = of_a.stride * of_a.element, bytes = of_a.features * of_a.element;
  if (of_a.count > 1 && of_a.stride == of_b.stride && step > 0) {
    const int64_t between = ((of_b.data - of_a.data) % step + step) % step;
    if (between >= bytes && between + bytes <= step) return;
  }
  throw Error(ErrorCode::overlap, std::string(of_a.name) + " overlaps " + of_b.name +
                                      " in memory; give it memory of its own");
}
// The same, but they may be the same rows.
void check_same_rows_or_apart(const TensorView& a, const StridedRows& of_a, const TensorView& b,
                              const StridedRows& of_b) {
  if (of_a.data != of_b.data || of_a.stride != of_b.stride) check_rows_apart(a, of_a, b, of_b);
}

void check_gated(Activation activation, const TensorView& gate) {
  if (activation > Activation::silu)
    throw Error(ErrorCode::argument,
                "activation " + std::to_string(static_cast<int>(activation)) + " is unknown");
  if (!gate.defined()) throw Error(ErrorCode::argument, "gate is missing");
  if (gate.rank < 1) throw Error(ErrorCode::shape, "gate has rank 0; expected [..., features]");
}

}  // namespace

void gated_activation(Activation activation, const TensorView& gate, const TensorView& up,
                      const TensorView& y, const Run& run) {
  if (run.counts()) return;
  check_gated(activation, gate);
  const StridedRows gates = strided_rows("gate", gate, gate.dims(), gate.dtype);
  const StridedRows ups = strided_rows("up", up, gate.dims(), gate.dtype);
  if (!y.defined()) throw Error(ErrorCode::argument, "y is missing");
  const StridedRows to = strided_output("y", y, gate.dims(), gate.dtype);
  check_same_rows_or_apart(y, to, gate, gates);
  check_same_rows_or_apart(y, to, up, ups);
  in_computed_type("gate", gate.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.gated[static_cast<int>(gate.dtype)];
    for_ranges(run.context, gates.count, kGatedWork * static_cast<double>(gate.count()),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   function(activation, gates.at(r), ups.at(r), gates.features, to.at(r));
               });
  });
}

void gated_activation_gradient(Activation activation, const TensorView& gate, const TensorView& up,
                               const TensorView& d_y, const TensorView& d_gate,
                               const TensorView& d_up, const Run& run) {
  if (run.counts()) return;
  check_gated(activation, gate);
  const StridedRows gates = strided_rows("gate", gate, gate.dims(), gate.dtype);
  const StridedRows ups = strided_rows("up", up, gate.dims(), gate.dtype);
  const StridedRows from = strided_rows("d_y", d_y, gate.dims(), gate.dtype);
  const StridedRows to_gate = strided_output("d_gate", d_gate, gate.dims(), gate.dtype);
  const StridedRows to_up = strided_output("d_up", d_up, gate.dims(), gate.dtype);
  check_same_rows_or_apart(d_gate, to_gate, gate, gates);
  check_rows_apart(d_gate, to_gate, up, ups);
  check_rows_apart(d_gate, to_gate, d_y, from);
  check_same_rows_or_apart(d_up, to_up, up, ups);
  check_rows_apart(d_up, to_up, gate, gates);
  check_rows_apart(d_up, to_up, d_y, from);
  check_rows_apart(d_up, to_up, d_gate, to_gate);
  in_computed_type("gate", gate.dtype, [&]<class E>() {
    const auto function = layer_kernels<E>().rows.gated_gradient[static_cast<int>(gate.dtype)];
    for_ranges(run.context, gates.count, kGatedWork * static_cast<double>(gate.count()),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r)
                   function(activation, gates.at(r), ups.at(r), from.at(r), gates.features,
                            to_gate.at(r), to_up.at(r));
               });
  });
}

}  // namespace rapt::nn
