#pragma once
// The mean of values: exact attention whose scores are all 0, whatever query and key contain.
#include "check/reference/reference.h"

namespace check {

struct MeanReference {
  static constexpr std::string_view kName = "mean";
  explicit MeanReference(const VariantArguments&) {}

  Problem restated(Problem p) const {
    p.query = zeros_like(p.query);
    p.key = zeros_like(p.key);
    p.scale = 0;
    p.constant_scores = true;
    p.rounds_weights = false;  // there are no products of weights
    p.left_out = {};
    return p;
  }

 private:
  // A tensor of the same shape whose elements are one zero of any dtype.
  static rapt::TensorView zeros_like(rapt::TensorView t) {
    static double zero = 0;
    t.data = &zero;
    for (int i = 0; i < t.rank; ++i) t.strides[i] = 0;
    return t;
  }
};

}  // namespace check
