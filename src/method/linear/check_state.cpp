// Checks of states.
#include "method/linear/check_state.h"

#include <string>

#include "base/check_argument.h"

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

}  // namespace rapt
