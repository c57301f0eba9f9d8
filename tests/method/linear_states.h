#pragma once
// The methods favor and linear of a drawn problem, with states in and out.
#include "check/compare/case.h"
#include "check/reference/feature_formulas.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"

namespace laws {

// The method of a case, to which states can be given.
struct WithStates {
  rapt::Favor favor;
  rapt::Linear linear;
  bool is_favor;

  explicit WithStates(const check::Case& c) : is_favor(c.descriptor.method.starts_with("favor")) {
    if (is_favor)
      favor = dynamic_cast<const rapt::Favor&>(*c.method);
    else
      linear = dynamic_cast<const rapt::Linear&>(*c.method);
  }
  const rapt::Method* with(const check::TensorView& initial, const check::TensorView& final) {
    favor.initial_state = linear.initial_state = initial;
    favor.final_state = linear.final_state = final;
    return is_favor ? static_cast<const rapt::Method*>(&favor) : &linear;
  }
};

// An empty state for a case.
inline check::Tensor state_of(const check::Case& c) {
  const check::Descriptor& d = c.descriptor;
  const auto features =
      static_cast<int64_t>(check::Features<double>(*c.for_reference().features, d.head_dim)
                               .of(std::vector<double>(static_cast<size_t>(d.head_dim)))
                               .size());
  check::Dims dims = d.leading;
  dims.insert(dims.end(), {features + 1, d.value_dim + 1});
  return check::Tensor(d.dtype == check::DType::f64 ? check::DType::f64 : check::DType::f32, dims);
}

}  // namespace laws
