// Checks of states.
#include "method/linear/check_state.h"

#include <cmath>
#include <string>

#include "base/check_argument.h"
#include "method/linear/chunk_sums.h"

namespace rapt {

void check_state(const char* name, const TensorView& state, const MethodCall& call,
                 int64_t features) {
  if (!state.defined()) return;
  const Problem& p = call.problem;
  int64_t expected[kMaxRank + 2];
  std::copy_n(p.leading, p.leading_rank, expected);
  expected[p.leading_rank] = features + 1;
  expected[p.leading_rank + 1] = p.value_dim + 1;
  const Shape shape{expected, static_cast<size_t>(p.leading_rank + 2)};
  if (!std::ranges::equal(state.dims(), shape))
    fail(ErrorCode::shape, name,
         std::string(name) + " is " + to_string(state.dims()) + "; expected " + to_string(shape) +
             ": a row per feature and one for the power, a column per value and one for the sum");
  if (state.dtype != p.result_dtype)
    fail(ErrorCode::dtype, name,
         std::string(name) + " is " + name_of(state.dtype) + "; expected " +
             name_of(p.result_dtype));
}

void check_no_state(const TensorView& initial_state, const TensorView& final_state) {
  if (initial_state.defined())
    fail(ErrorCode::unsupported, "initial_state",
         "gradients of a sequence that continues a state; give the whole sequence");
  if (final_state.defined())
    fail(ErrorCode::unsupported, "final_state",
         "gradients of a call that writes a state; leave final_state out of the backward pass");
}

void check_no_power(const TensorView& initial_state) {
  if (!initial_state.defined()) return;
  const int rank = initial_state.rank;
  TensorView powers = initial_state;  // of every head
  powers.shape[rank - 2] = powers.shape[rank - 1] = 1;
  const int64_t row = (initial_state.shape[rank - 2] - 1) * initial_state.strides[rank - 2];
  int64_t index[kMaxRank + 2] = {};
  for (int64_t left = powers.count(); left > 0; --left) {
    int64_t at = row;
    for (int d = 0; d < rank; ++d) at += index[d] * powers.strides[d];
    const bool is_f64 = powers.dtype == DType::f64;
    const double power = is_f64 ? static_cast<const double*>(powers.data)[at]
                                : static_cast<const float*>(powers.data)[at];
    const double none = is_f64 ? kNoPower<double> : double{kNoPower<float>};
    if (std::isfinite(power) && power != 0 && power != none)
      fail(ErrorCode::argument, "method",
           "initial_state has the power " + std::to_string(power) +
               "; expected 0: features of linear have no power. Is it a state of favor?");
    for (int d = rank; d-- > 0 && ++index[d] == powers.shape[d];) index[d] = 0;
  }
}

}  // namespace rapt
