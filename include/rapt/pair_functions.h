#pragma once
// Functions of one pair of a query and a key, or of one score of a query, that a project of your
// own gives to a call (rapt/score/custom_score.h, rapt/normalizer/custom_weights.h, ...).
//
// They are templates over the element type E in which is computed, float for f32, bf16 and f16,
// double for f64, `[](auto score, const auto& at) { return ...; }`, and are compiled, with the
// loops that call them, where they stand in your program: there is one call through a pointer per
// tile, none per pair. They are called by several threads at once, and must not throw.
#include <cstdint>
#include <type_traits>

#include "rapt/positions.h"

namespace rapt {

struct PairPlace {   // where a score stands
  int64_t query;     // position in the whole sequence of the queries, from 0
  int64_t key;       // and of the keys
  const Head& head;  // index in the leading dimensions, whole lengths
};

struct QueryPlace {  // where a row of scores stands
  int64_t query;     // position in the whole sequence, from 0
  const Head& head;  // index in the leading dimensions, whole lengths
};

struct NoFunction {};  // where one may be left out

namespace detail {
// Does f(score, place) give what is not narrower than E? A function of floats that is given doubles
// would round them.
template <class F, class E, class Place>
constexpr bool pair_function() {
  if constexpr (std::is_invocable_v<const F&, E, const Place&>) {
    using Result = std::remove_cvref_t<std::invoke_result_t<const F&, E, const Place&>>;
    return std::is_floating_point_v<Result> && sizeof(Result) >= sizeof(E);
  } else {
    return false;
  }
}

// Is it compiled as if there were no infinities? Of a template's argument, so that only what uses
// them asks.
template <class>
constexpr bool finite_math() {
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  return true;
#else
  return false;
#endif
}
}  // namespace detail

// Takes (E, const Place&), gives a number at least as wide as E.
template <class F, class E, class Place>
concept PairFunction = detail::pair_function<F, E, Place>();

}  // namespace rapt
