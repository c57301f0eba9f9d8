#include "check/tolerance/feature_tolerance.h"

#include <cmath>

#include "check/reference/feature_loops.h"
#include "check/tolerance/rounded.h"

namespace check {
namespace {

// The same loops in the type of the truth with error bounds, and in the dtype itself.
template <class Narrow, class Wide>
struct BothLoops {
  using Number = Rounded<Narrow, Wide>;
  const FeatureResults<Number> truth;
  const FeatureResults<Narrow> plain;

  BothLoops(const Problem& p, const Incoming* in)
      : truth(FeatureLoops<Number>(p, in).run()), plain(FeatureLoops<Narrow>(p, in).run()) {}
};

template <class Narrow, class Wide>
Expectation expectation(const std::vector<Rounded<Narrow, Wide>>& truth,
                        const std::vector<Narrow>& plain) {
  Expectation e;
  for (const Rounded<Narrow, Wide>& x : truth) {
    e.truth.push_back(x.value);
    // What is below the smallest normal number may be flushed to zero.
    e.floor.push_back(Rounded<Narrow, Wide>::kEpsilon * x.error +
                      double{std::numeric_limits<Narrow>::min()});
    e.open.push_back(std::isinf(x.error));
  }
  e.plain.assign(plain.begin(), plain.end());
  return e;
}

// Calls function(Narrow(), Wide()) of the problem's dtype.
template <class Function>
auto with_types(const Problem& p, const Function& function) {
  return p.query.dtype == rapt::DType::f64 ? function(double(), static_cast<long double>(0))
                                           : function(float(), double());
}

}  // namespace

Expectations feature_expectations(const Problem& p) {
  return with_types(p, [&]<class Narrow, class Wide>(Narrow, Wide) {
    const BothLoops<Narrow, Wide> loops(p, nullptr);
    Expectations e;
    e.output = expectation(loops.truth.output, loops.plain.output);
    e.lse = expectation(loops.truth.lse, loops.plain.lse);
    return e;
  });
}

GradientExpectations feature_gradient_expectations(const Problem& p, const Incoming& in) {
  return with_types(p, [&]<class Narrow, class Wide>(Narrow, Wide) {
    const BothLoops<Narrow, Wide> loops(p, &in);
    GradientExpectations e;
    e.query = expectation(loops.truth.d_query, loops.plain.d_query);
    e.key = expectation(loops.truth.d_key, loops.plain.d_key);
    e.value = expectation(loops.truth.d_value, loops.plain.d_value);
    return e;
  });
}

Expectation feature_state_expectation(const Problem& p) {
  return with_types(p, [&]<class Narrow, class Wide>(Narrow, Wide) {
    const BothLoops<Narrow, Wide> loops(p, nullptr);
    return expectation(loops.truth.state, loops.plain.state);
  });
}

}  // namespace check
