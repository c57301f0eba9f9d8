#pragma once
// The arguments of a score, mask or method that are numbers or words, for its formula.
#include <cstdint>
#include <map>
#include <string_view>

#include "check/spec/pair_place.h"

namespace check {

struct VariantArguments {  // by the names of its parameters
  std::map<std::string_view, int64_t> integers;
  std::map<std::string_view, double> reals;
  std::map<std::string_view, std::string_view> words;  // of choices
};

// j - i, with queries counted as the parameter "anchor" says.
class AnchoredPositions {
 public:
  explicit AnchoredPositions(const VariantArguments& arguments)
      : bottom_right_(arguments.words.at("anchor") == "bottom-right") {}

  int64_t ahead(const PairPlace& place) const {
    return place.j - place.i - (bottom_right_ ? place.k_len - place.q_len : 0);
  }

 private:
  bool bottom_right_;
};

}  // namespace check
