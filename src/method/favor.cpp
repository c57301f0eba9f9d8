// FAVOR+; the formulas are in the header, the passes in src/method/linear.
#include "rapt/method/favor.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check_argument.h"
#include "method/linear/check_state.h"
#include "method/linear/linear_passes.h"
#include "method/linear/projection.h"
#include "rapt/feature_maps.h"
#include "rapt/normalizer/normalizer.h"

namespace rapt {
namespace {

constexpr int64_t kMostFeatures = int64_t{1} << 20;

constexpr Parameter kParameters[] = {
    parameter<Favor, &Favor::features>("features", "rows of the projection",
                                       Range{1, static_cast<double>(kMostFeatures)}),
    parameter<Favor, &Favor::kind>("kind", "the features of a row", kAnyNumber, kFavorKindNames),
    parameter<Favor, &Favor::rows>("rows", "how the rows are drawn", kAnyNumber,
                                   kProjectionRowsNames),
    parameter<Favor, &Favor::seed>("seed", "of the projection, which all heads share", kAnyInteger),
    parameter<Favor, &Favor::exponent>("exponent", "A of FAVOR++; 0: FAVOR+", Range{-64, 0.1249}),
    parameter<Favor, &Favor::projection>(
        "projection", "[features, head_dim], f32 or f64; absent: drawn from the seed"),
    parameter<Favor, &Favor::initial_state>(
        "initial_state", "sums over the keys of the tokens before; absent: there are none"),
    written_parameter<Favor, &Favor::final_state>("final_state",
                                                  "the sums over the keys of all tokens"),
};
constexpr const char* kExamples[] = {"256",
                                     "64",
                                     "32,hyperbolic",
                                     "32,trigonometric",
                                     "64,rows=independent,seed=3",
                                     "64,exponent=-0.02"};
constexpr const char* kMasks[] = {"causal", "lengths"};

int64_t features_of_kind(const Favor& favor) noexcept {
  return favor.kind == FavorKind::positive ? favor.features : 2 * favor.features;
}

constexpr int kMaps[] = {
    index_in<PositiveFeatures>(FeatureMaps{}), index_in<HyperbolicFeatures>(FeatureMaps{}),
    index_in<TrigonometricFeatures>(FeatureMaps{})};  // in the order of FavorKind
static_assert(std::ranges::min(kMaps) >= 0);

LinearModel model_of(const Favor& favor, const MethodCall& call) {
  const auto features = static_cast<double>(favor.features);
  const auto dims = static_cast<double>(call.problem.head_dim);
  return {.map = kMaps[static_cast<int>(favor.kind)],
          .inputs = favor.features,
          .features = features_of_kind(favor),
          .projection = favor.projection,
          .seed = static_cast<uint64_t>(favor.seed),
          .orthogonal = favor.rows == ProjectionRows::orthogonal,
          .exponent = favor.exponent,
          .log_factor = -std::log(favor.kind == FavorKind::hyperbolic ? 2 * features : features) +
                        dims / 2 * std::log1p(-4 * favor.exponent),
          .initial_state = favor.initial_state,
          .final_state = favor.final_state};
}

}  // namespace

const Declaration Favor::kDeclaration = {"favor", "softmax attention by random features",
                                         "Choromanski et al. 2021, arXiv:2009.14794", kParameters,
                                         kExamples};
const MethodScope Favor::kScope = {
    .masks = kMasks, .d_statistic = true, .shifted_causal = false, .causal_lengths_differ = false};

void Favor::check(const MethodCall& call) const {
  if (kind == FavorKind::trigonometric && exponent != 0)
    fail(ErrorCode::argument, "exponent",
         "an exponent with trigonometric features; expected 0, or positive or hyperbolic ones");
  if (projection.defined()) {
    const int64_t expected[] = {features, call.problem.head_dim};
    if (!std::ranges::equal(projection.dims(), expected))
      fail(ErrorCode::shape, "projection",
           "projection is " + to_string(projection.dims()) +
               "; expected [features, head_dim] = " + to_string(expected));
    if (projection.dtype != DType::f32 && projection.dtype != DType::f64)
      fail(ErrorCode::dtype, "projection",
           std::string("projection is ") + name_of(projection.dtype) + "; expected f32 or f64");
  }
  check_state("initial_state", initial_state, call, features_of_kind(*this));
  check_state("final_state", final_state, call, features_of_kind(*this));
}

MethodPlan Favor::plan(const MethodCall& call) const {
  return plan_linear(call, model_of(*this, call));
}

void Favor::forward(const MethodCall& call, const MethodResults& results,
                    std::byte* scratch) const {
  run_linear(call, model_of(*this, call), results, scratch);
}

MethodPlan Favor::plan_backward(const MethodCall& call, const WantedGradients& wanted) const {
  check_no_state(initial_state, final_state);
  return plan_linear_backward(call, model_of(*this, call), wanted);
}

void Favor::backward(const MethodCall& call, const MethodGradients& gradients,
                     std::byte* scratch) const {
  run_linear_backward(call, model_of(*this, call), gradients, scratch);
}

Tensor favor_projection(int64_t features, int64_t head_dim, uint64_t seed, ProjectionRows rows) {
  if (features < 1 || features > kMostFeatures)
    fail(ErrorCode::argument, "features",
         "features = " + std::to_string(features) + "; expected 1 to " +
             std::to_string(kMostFeatures));
  if (head_dim < 1)
    fail(ErrorCode::argument, "head_dim",
         "head_dim = " + std::to_string(head_dim) + "; expected at least 1");
  Tensor projection(DType::f64, {features, head_dim});
  make_projection(features, head_dim, seed, rows == ProjectionRows::orthogonal,
                  projection.values<double>().data());
  return projection;
}

}  // namespace rapt
