// Linear attention; the formulas are in the header, the passes in src/method/linear.
#include "rapt/method/linear.h"

#include <algorithm>
#include <string>

#include "base/check_argument.h"
#include "method/linear/check_state.h"
#include "method/linear/linear_passes.h"
#include "rapt/feature_maps.h"
#include "rapt/normalizer/normalizer.h"

namespace rapt {
namespace {

constexpr Parameter kParameters[] = {
    parameter<Linear, &Linear::map>("map", "the feature map", kAnyNumber, kLinearMapNames),
    parameter<Linear, &Linear::normalized>(
        "normalized", "is the output divided by the sum of weights?", kAnyNumber, kNormalizedNames),
    parameter<Linear, &Linear::initial_state>(
        "initial_state", "sums over the keys of the tokens before; absent: there are none"),
    written_parameter<Linear, &Linear::final_state>("final_state",
                                                    "the sums over the keys of all tokens"),
};
constexpr const char* kExamples[] = {"elu", "taylor", "elu,normalized=no", "taylor,normalized=no"};
constexpr const char* kMasks[] = {"causal", "lengths"};

int64_t features_of(const Linear& linear, int64_t head_dim) noexcept {
  if (linear.own != nullptr) return linear.own->features;
  return linear.map == LinearMap::taylor ? TaylorFeatures::features(head_dim) : head_dim;
}

constexpr int kMaps[] = {index_in<EluFeatures>(FeatureMaps{}),
                         index_in<ReluFeatures>(FeatureMaps{}),
                         index_in<TaylorFeatures>(FeatureMaps{})};  // in the order of LinearMap
static_assert(std::ranges::min(kMaps) >= 0);

LinearModel model_of(const Linear& linear, const MethodCall& call) {
  return {.map = kMaps[static_cast<int>(linear.own != nullptr ? LinearMap::elu : linear.map)],
          .own = linear.own,
          .inputs = call.problem.head_dim,
          .features = features_of(linear, call.problem.head_dim),
          .normalized = linear.normalized == Normalized::yes,
          .initial_state = linear.initial_state,
          .final_state = linear.final_state};
}

}  // namespace

const Declaration Linear::kDeclaration = {"linear", "attention by a feature map, as sums over keys",
                                          "Katharopoulos et al. 2020, arXiv:2006.16236",
                                          kParameters, kExamples};
const MethodScope Linear::kScope = {
    .masks = kMasks, .d_statistic = true, .shifted_causal = false, .causal_lengths_differ = false};
const MethodScope Linear::kSumsScope = {.masks = kMasks,
                                        .statistic = Statistic::none,
                                        .shifted_causal = false,
                                        .causal_lengths_differ = false};

void Linear::check(const MethodCall& call) const {
  constexpr int64_t kMostFeatures = int64_t{1} << 20;
  if (own != nullptr && (own->features < 1 || own->features > kMostFeatures || !own->apply))
    fail(ErrorCode::argument, "own",
         "own has " + std::to_string(own->features) + " features and " + (own->apply ? "a" : "no") +
             " function apply; expected 1 to " + std::to_string(kMostFeatures) + " and one");
  const int64_t features = features_of(*this, call.problem.head_dim);
  check_state("initial_state", initial_state, call, features);
  check_state("final_state", final_state, call, features);
}

MethodPlan Linear::plan(const MethodCall& call) const {
  return plan_linear(call, model_of(*this, call));
}

void Linear::forward(const MethodCall& call, const MethodResults& results,
                     std::byte* scratch) const {
  check_no_power(initial_state);
  run_linear(call, model_of(*this, call), results, scratch);
}

MethodPlan Linear::plan_backward(const MethodCall& call, const WantedGradients& wanted) const {
  check_no_state(initial_state, final_state);
  if (own != nullptr && !own->backward)
    fail(ErrorCode::unsupported, "own", "own has no function backward; gradients need one");
  return plan_linear_backward(call, model_of(*this, call), wanted);
}

void Linear::backward(const MethodCall& call, const MethodGradients& gradients,
                      std::byte* scratch) const {
  run_linear_backward(call, model_of(*this, call), gradients, scratch);
}

}  // namespace rapt
