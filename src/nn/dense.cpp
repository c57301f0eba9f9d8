#include "nn/dense.h"

#include "base/tensor_memory.h"

namespace rapt::nn {
namespace {

void check_dense(const char* name, const TensorView& view) {
  if (!view.contiguous())
    throw Error(ErrorCode::argument,
                described(name, view) + " is not dense; copy it (Tensor::copy_of)");
}

}  // namespace

void check_input(const char* name, const TensorView& view, Shape expected, DType dtype) {
  if (!view.defined()) throw Error(ErrorCode::argument, std::string(name) + " is missing");
  bool fits = view.rank == static_cast<int>(expected.size());
  for (int i = 0; fits && i < view.rank; ++i)
    fits = view.shape[i] == expected[static_cast<size_t>(i)];
  if (!fits)
    throw Error(ErrorCode::shape, described(name, view) + "; expected " + to_string(expected));
  if (view.dtype != dtype)
    throw Error(ErrorCode::dtype, described(name, view) + " is " + name_of(view.dtype) +
                                      "; expected " + name_of(dtype));
  if (!view.empty() && !view.data)
    throw Error(ErrorCode::argument,
                described(name, view) + " has elements but a null data pointer");
  extent_of(name, view);
  check_alignment(name, view);
  check_dense(name, view);
}

void check_output(const char* name, const TensorView& view, Shape expected, DType dtype) {
  if (!view.defined()) throw Error(ErrorCode::argument, std::string(name) + " is missing");
  check_output_tensor(name, view, expected, dtype);
  check_dense(name, view);
}

void check_same_or_apart(const char* name, const TensorView& a, const char* other,
                         const TensorView& b) {
  if (a.defined() && b.defined() && a.data == b.data) return;
  check_apart(name, a, other, b);
}

void check_apart(const char* name, const TensorView& a, const char* other, const TensorView& b) {
  if (a.defined() && b.defined() && extent_of(name, a).meets(extent_of(other, b)))
    throw Error(ErrorCode::overlap,
                std::string(name) + " overlaps " + other + " in memory; give it memory of its own");
}

}  // namespace rapt::nn
