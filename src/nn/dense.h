#pragma once
// Checks of the tensors of layers.
#include <string>

#include "base/tensor_memory.h"
#include "rapt/tensor.h"

namespace rapt::nn {

// Calls f.template operator()<E>() with the type in which a dtype is computed. Throws Error(dtype)
// for a dtype that is no floating-point type.
template <class Function>
decltype(auto) in_computed_type(const char* name, DType dtype, const Function& f) {
  if (dtype == DType::f64) return f.template operator()<double>();
  if (dtype > DType::f16)
    throw Error(ErrorCode::dtype,
                std::string(name) + " is " + name_of(dtype) + "; expected f32, f64, bf16 or f16");
  return f.template operator()<float>();
}

// Checks that an input has this shape and dtype, is dense, aligned and not null. Throws
// Error(argument, shape, dtype, overflow).
void check_input(const char* name, const TensorView& view, Shape expected, DType dtype);

// The same for an output, which must be writable.
void check_output(const char* name, const TensorView& view, Shape expected, DType dtype);

// Throws Error(overlap) if two tensors share memory, unless they are the same one.
void check_same_or_apart(const char* name, const TensorView& a, const char* other,
                         const TensorView& b);

// Throws Error(overlap) if two tensors share memory.
void check_apart(const char* name, const TensorView& a, const char* other, const TensorView& b);

}  // namespace rapt::nn
