#pragma once
// s' = s ln n / ln length. n is the number of keys, or the query's position where the last query
// has that of the last key. Without a length there is no division. Nothing is learned.
#include <algorithm>

#include "check/reference/score_formula.h"

namespace check {

struct LogNReference {
  static constexpr std::string_view kName = "log_n";
  bool by_position;
  int64_t length;

  explicit LogNReference(const VariantArguments& arguments)
      : by_position(arguments.words.at("count") == "position"),
        length(arguments.integers.at("length")) {}

  template <class N>
  PairScore<N> of(const N& s, const PairNumbers<N>&, const PairPlace& place) const {
    const int64_t n = by_position ? place.i + 1 + place.k_len - place.q_len : place.k_len;
    double factor = std::log(static_cast<double>(std::max<int64_t>(n, 1)));
    if (length > 0) factor /= std::log(static_cast<double>(length));
    return {of_double<N>(factor) * s, of_double<N>(factor)};
  }
};

}  // namespace check
