#pragma once
// Sums of a branch and what it goes around.
#include <cstring>

#include "rapt/nn/dropout.h"

namespace rapt::nn {

// Copies a dense tensor.
inline void copy_dense(const TensorView& from, const TensorView& to, const Run& run) {
  if (run.counts() || from.empty()) return;
  std::memcpy(to.data, from.data, static_cast<size_t>(from.count() * size_of(from.dtype)));
}

// to += from.
inline void add_dense(const TensorView& from, const TensorView& to, const Run& run) {
  forward(Dropout(), from, to, run, true);
}

// out += dropout(branch): calls branch(target, add) to compute it, straight into the sum where
// nothing is dropped.
template <class Branch>
void add_branch(const Dropout& dropout, const TensorView& out, const Run& run,
                const Branch& branch) {
  if (dropout.probability == 0 || !run.training) return branch(out, true);
  const Arena::Frame frame(run.scratch);
  const TensorView target = run.scratch.take(out.dtype, out.dims());
  branch(target, false);
  forward(dropout, target, out, run, true);
}

// The gradient of a branch from that of the sum: calls branch(d_branch).
template <class Branch>
void branch_gradient(const Dropout& dropout, const TensorView& d_out, const Run& run,
                     const Branch& branch) {
  if (dropout.probability == 0 || !run.training) return branch(d_out);
  const Arena::Frame frame(run.scratch);
  const TensorView d_branch = run.scratch.take(d_out.dtype, d_out.dims());
  backward(dropout, d_out, d_branch, run);
  branch(d_branch);
}

}  // namespace rapt::nn
