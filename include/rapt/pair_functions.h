#pragma once
// The functions of your own variants: functions of one pair of a query and a key, or of one score
// of a query (rapt/score/custom_score.h, rapt/normalizer/custom_weights.h, ...).
//
// They are templates over the element type E of the computation (float for f32, bf16 and f16,
// double for f64): `[](auto score, const auto& at) { return ...; }`. They are compiled in your
// program together with the loops that call them, so there is one call through a pointer per tile
// and none per pair. Several threads call them at the same time, and they must not throw.
#include <cstdint>
#include <type_traits>

#include "rapt/positions.h"

namespace rapt {

struct PairPlace {   // the place of a score
  int64_t query;     // position of the query in its whole sequence, from 0
  int64_t key;       // position of the key in its whole sequence, from 0
  const Head& head;  // index in the leading dimensions, whole lengths
};

struct QueryPlace {  // the place of a row of scores
  int64_t query;     // position of the query in its whole sequence, from 0
  const Head& head;  // index in the leading dimensions, whole lengths
};

struct NoFunction {};  // stands for an optional function that is not given

namespace detail {
// Whether f(score, place) returns a floating-point number at least as wide as E. A function of
// float that is called with double would round.
template <class F, class E, class Place>
constexpr bool pair_function() {
  if constexpr (std::is_invocable_v<const F&, E, const Place&>) {
    using Result = std::remove_cvref_t<std::invoke_result_t<const F&, E, const Place&>>;
    return std::is_floating_point_v<Result> && sizeof(Result) >= sizeof(E);
  } else {
    return false;
  }
}

// Whether the code is compiled as if there were no infinities. A template, so that only code that
// uses infinities checks it.
template <class>
constexpr bool finite_math() {
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
  return true;
#else
  return false;
#endif
}
}  // namespace detail

// A function of (E, const Place&) that returns a number at least as wide as E.
template <class F, class E, class Place>
concept PairFunction = detail::pair_function<F, E, Place>();

}  // namespace rapt
