// Components of heads that share gradients.
#include "method/shared_heads.h"

#include <numeric>

namespace rapt {

SharedHeads::Divisors SharedHeads::divisors_of(const TensorView& view, bool wanted) const noexcept {
  Divisors divisors;
  const int missing = problem_.leading_rank - (view.rank - 2);
  for (int i = 0; i < problem_.leading_rank; ++i) {
    const int64_t n = i < missing ? 1 : view.shape[i - missing];
    divisors.along[i] = wanted && problem_.leading[i] > n ? problem_.leading[i] / n : 1;
  }
  return divisors;
}

SharedHeads::SharedHeads(const MethodCall& call, const WantedGradients& wanted)
    : problem_(call.problem),
      query_(divisors_of(call.checked.query, wanted.query)),
      key_(divisors_of(call.checked.key, wanted.key)),
      value_(divisors_of(call.checked.value, wanted.value)) {
  for (int i = 0; i < problem_.leading_rank; ++i) {
    block_[i] = std::lcm(std::lcm(query_.along[i], key_.along[i]), value_.along[i]);
    component_heads_ *= block_[i];
    components_ *= problem_.leading[i] / block_[i];
  }
}

int64_t SharedHeads::slots(const Divisors& divisors) const noexcept {
  int64_t count = 1;
  for (int i = 0; i < problem_.leading_rank; ++i) count *= block_[i] / divisors.along[i];
  return count;
}

SharedHead::Sum SharedHeads::sum_of(const Divisors& divisors, const int64_t* index) const noexcept {
  SharedHead::Sum sum;
  for (int i = 0; i < problem_.leading_rank; ++i) {
    const int64_t within = index[i] % divisors.along[i];
    sum.first &= within == 0;
    sum.last &= within == divisors.along[i] - 1;
    sum.slot =
        sum.slot * (block_[i] / divisors.along[i]) + index[i] % block_[i] / divisors.along[i];
  }
  return sum;
}

SharedHead SharedHeads::operator()(int64_t component, int64_t nth) const noexcept {
  int64_t index[kMaxRank], head = 0;
  for (int i = problem_.leading_rank - 1; i >= 0; --i) {
    const int64_t blocks = problem_.leading[i] / block_[i];
    index[i] = component % blocks * block_[i] + nth % block_[i];
    component /= blocks, nth /= block_[i];
  }
  for (int i = 0; i < problem_.leading_rank; ++i) head = head * problem_.leading[i] + index[i];
  return {head, sum_of(query_, index), sum_of(key_, index), sum_of(value_, index)};
}

}  // namespace rapt
