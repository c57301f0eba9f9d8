#pragma once
// Linear attention by a given feature map.
#include <string_view>

#include "check/reference/reference.h"

namespace check {

class LinearReference {
 public:
  static constexpr std::string_view kName = "linear";
  explicit LinearReference(const VariantArguments& arguments)
      : map_(arguments.words.at("map") == "elu"    ? FeatureMap::elu
             : arguments.words.at("map") == "relu" ? FeatureMap::relu
                                                   : FeatureMap::taylor),
        normalized_(arguments.words.at("normalized") == "yes") {}

  Problem restated(Problem p) const {
    p.features = {.map = map_, .normalized = normalized_};
    return p;
  }

 private:
  FeatureMap map_;
  bool normalized_;
};

}  // namespace check
