#pragma once
// The mean of values: what attention returns when all scores are equal. It is the baseline that
// every approximation is compared with; on flat inputs some approximations are worse.
//
//   output(i)  = sum_j value(j) / n(i)      over the n(i) keys that query i attends to
//   lse(i)     = ln n(i)                    that of n(i) scores of 0; -inf without keys
//   d_value(j) = sum_i d_output(i) / n(i)   over the queries that attend to key j
//
// Query, key and scale have no part in the result: their gradients are 0, and so is that of lse
// with respect to every input. Their NaN does not show. Results over disjoint keys can be merged.
//
// The cost is O(n value_dim): running sums in f64, from the first key on (gradients: from the last
// query back). Gradients of query and key cost O(n head_dim) more: they are filled with zeros.
#include "rapt/method/method.h"

namespace rapt {

class Mean final : public Method {
 public:
  static const Declaration kDeclaration;
  static const MethodScope kScope;

  const Declaration& declaration() const noexcept override { return kDeclaration; }
  const MethodScope& scope() const noexcept override { return kScope; }
  void check(const MethodCall& call) const override;
  MethodPlan plan(const MethodCall& call) const override;
  void forward(const MethodCall& call, const MethodResults& results,
               std::byte* scratch) const override;
  MethodPlan plan_backward(const MethodCall& call, const WantedGradients& wanted) const override;
  void backward(const MethodCall& call, const MethodGradients& gradients,
                std::byte* scratch) const override;
};

}  // namespace rapt
