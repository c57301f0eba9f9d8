#pragma once
// The types of the formulas in scores/.
//
// The formula of a score is a struct in a file of that folder, named after the score: tanh_clip.h
// has TanhClipReference. The build lists them. It has
//
//   kName                as in the library
//   of(s, own, place)    the new score of a pair with its derivatives by s and by the numbers `own`
//
// over numbers N (numbers.h). `own` has the number that the pair uses of each learned parameter: of
// the real parameters, and of the tensors with numbers per head, in the order of the declaration.
// Where it needs them, the struct has
//
//   explicit NameReference(const VariantArguments&)   takes integers and choices
//   entry(place, entries)   which number of its head a pair uses, if a tensor has several
//   kSpread                 the standard deviation of drawn tensors, if it is not 1
//
// Shares no code with the library.
#include <array>
#include <cstdint>
#include <string_view>

#include "check/reference/numbers.h"
#include "check/spec/pair_place.h"
#include "check/spec/variant_arguments.h"

namespace check {

inline constexpr size_t kMostPerPair = 2;  // learned parameters of a score
template <class N>
using PairNumbers = std::array<N, kMostPerPair>;

template <class N>
struct PairScore {
  N value;
  N slope = N(1);                 // its derivative by the score before
  PairNumbers<N> by_number = {};  // its derivatives by the numbers of the pair
};

}  // namespace check
