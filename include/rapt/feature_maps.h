#pragma once
// The catalogue of feature maps, for the methods favor (those with a projection) and linear (all
// others). A new one: its header in include/rapt/feature_map, its name here and in the method
// (src/method/favor.cpp or src/method/linear.cpp).
#include "rapt/feature_map/elu.h"
#include "rapt/feature_map/hyperbolic.h"
#include "rapt/feature_map/positive.h"
#include "rapt/feature_map/relu.h"
#include "rapt/feature_map/taylor.h"
#include "rapt/feature_map/trigonometric.h"

namespace rapt {

using FeatureMaps = TypeList<PositiveFeatures, HyperbolicFeatures, TrigonometricFeatures,
                             EluFeatures, ReluFeatures, TaylorFeatures>;

}  // namespace rapt
