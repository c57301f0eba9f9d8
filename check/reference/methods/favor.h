#pragma once
// Softmax attention by random features. The projection is data, which the library draws.
#include <string_view>

#include "check/reference/reference.h"
#include "rapt/method/favor.h"

namespace check {

class FavorReference {
 public:
  static constexpr std::string_view kName = "favor";
  explicit FavorReference(const VariantArguments& arguments)
      : map_(arguments.words.at("kind") == "positive"     ? FeatureMap::positive
             : arguments.words.at("kind") == "hyperbolic" ? FeatureMap::hyperbolic
                                                          : FeatureMap::trigonometric),
        drawn_(arguments.words.at("rows") == "orthogonal" ? rapt::ProjectionRows::orthogonal
                                                          : rapt::ProjectionRows::independent),
        rows_(arguments.integers.at("features")),
        seed_(static_cast<uint64_t>(arguments.integers.at("seed"))),
        exponent_(arguments.reals.at("exponent")) {}

  Problem restated(Problem p) const {
    const rapt::Tensor w =
        rapt::favor_projection(rows_, p.query.shape[p.query.rank - 1], seed_, drawn_);
    const auto numbers = w.values<double>();
    p.features = {.map = map_,
                  .rows = rows_,
                  .exponent = exponent_,
                  .projection = {numbers.begin(), numbers.end()}};
    return p;
  }

 private:
  FeatureMap map_;
  rapt::ProjectionRows drawn_;
  int64_t rows_;
  uint64_t seed_;
  double exponent_;
};

}  // namespace check
