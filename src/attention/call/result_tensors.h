#pragma once
// A table of the tensors that a call returns: the outputs of the forward pass (captures.h), or
// gradients (gradient_request.h).
#include "base/call_memory.h"
#include "rapt/tensor.h"

namespace rapt {

struct ResultShape {
  const char* name;
  bool wanted = false;  // if not, dtype and shape may be unset
  DType dtype;
  int rank = 0;
  int64_t shape[kMaxRank + 2];  // [rank]

  Shape dims() const { return {shape, static_cast<size_t>(rank)}; }
};

// `Views` has the caller's memory, `Tensors` what a call allocates and returns.
template <class Views, class Tensors>
struct ResultSpec : ResultShape {
  TensorView Views::*view;  // null for output and statistic, which lie in the state
  Tensor Tensors::*tensor;
};

// The bytes of all wanted tensors; SIZE_MAX on overflow.
template <class Spec, size_t kCount>
size_t bytes_of_results(const Spec (&specs)[kCount]) {
  size_t total = 0;
  for (const Spec& spec : specs)
    if (spec.wanted) total = add_or_max(total, bytes_of(spec.dims(), spec.dtype));
  return total;
}

// Allocates the wanted tensors, and sets the views to them.
template <class Views, class Tensors, size_t kCount>
void allocate_results(const ResultSpec<Views, Tensors> (&specs)[kCount], Tensors& tensors,
                      Views& views) {
  for (const ResultSpec<Views, Tensors>& spec : specs) {
    if (!spec.wanted) continue;
    tensors.*spec.tensor = Tensor(spec.dtype, spec.dims());
    if (spec.view) views.*spec.view = tensors.*spec.tensor;
  }
}

}  // namespace rapt
