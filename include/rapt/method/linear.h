#pragma once
// Linear attention by a given feature map:
//
//   output_i = sum_j w_ij v_j / sum_j w_ij        w_ij = phi(x_i) . phi(y_j)
//   x = sqrt(scale) q, y = sqrt(scale) k
//
// and without the division if `normalized` is `no`. Maps: elu(x) + 1, relu, and the Taylor series
// of e^(x . y) to its second term (rapt/feature_map/), or your own (own_features.h). The statistic
// is the logarithm of the sum of weights; there is none without the division. A query whose sum is
// 0 gets 0 / 0.
//
// A negative scale gives the query the factor -sqrt(|scale|). Papers that do not scale the query
// need the scale 1.
//
// A sequence can be continued: `final_state` is written with the sums over all keys, and a call
// with it as `initial_state` continues behind them. The first element of a state's last row is 0,
// or -max / 4 in the state of no keys, where max is the largest number of the dtype; another finite
// power is rejected. Gradients are those of a whole sequence: the backward pass rejects both
// states.
//
// Source: Katharopoulos et al. 2020, arXiv:2006.16236.
#include "rapt/feature_map/own_features.h"
#include "rapt/method/method.h"
#include "rapt/tensor.h"

namespace rapt {

enum class LinearMap : uint8_t { elu, relu, taylor };
inline constexpr const char* kLinearMapNames[] = {"elu", "relu", "taylor"};

enum class Normalized : uint8_t { yes, no };
inline constexpr const char* kNormalizedNames[] = {"yes", "no"};

class Linear final : public Method {
 public:
  LinearMap map = LinearMap::elu;
  const OwnFeatures* own = nullptr;  // in place of `map`; in code alone, not in texts
  Normalized normalized = Normalized::yes;
  TensorView initial_state = {};  // [..., features + 1, value_dim + 1], f32 (f64 for f64)
  TensorView final_state = {};    // the same; written

  static const Declaration kDeclaration;
  static const MethodScope kScope;
  static const MethodScope kSumsScope;  // without normalisation

  const Declaration& declaration() const noexcept override { return kDeclaration; }
  const MethodScope& scope() const noexcept override {
    return normalized == Normalized::yes ? kScope : kSumsScope;
  }
  void check(const MethodCall& call) const override;
  MethodPlan plan(const MethodCall& call) const override;
  void forward(const MethodCall& call, const MethodResults& results,
               std::byte* scratch) const override;
  MethodPlan plan_backward(const MethodCall& call, const WantedGradients& wanted) const override;
  void backward(const MethodCall& call, const MethodGradients& gradients,
                std::byte* scratch) const override;
};

}  // namespace rapt
