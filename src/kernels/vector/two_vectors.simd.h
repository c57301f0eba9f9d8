#pragma once
// Two vectors side by side, with the words that activations use. Long chains of dependent
// instructions keep a core waiting; with two of them in turn it does 1.1 to 1.3 times as much (AMD
// Zen 3). Each element has the same bits as in a vector alone.
#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

template <class V>
struct Two {
  using Element = typename V::Element;
  V first, second;
  static Two set(double x) { return {V::set(x), V::set(x)}; }
};

// What a comparison gives.
template <class V>
struct TwoMasks {
  decltype(equal(V{}, V{})) first, second;
};

template <class V>
RAPT_INLINE Two<V> add(Two<V> a, Two<V> b) {
  return {add(a.first, b.first), add(a.second, b.second)};
}
template <class V>
RAPT_INLINE Two<V> sub(Two<V> a, Two<V> b) {
  return {sub(a.first, b.first), sub(a.second, b.second)};
}
template <class V>
RAPT_INLINE Two<V> mul(Two<V> a, Two<V> b) {
  return {mul(a.first, b.first), mul(a.second, b.second)};
}
template <class V>
RAPT_INLINE Two<V> div(Two<V> a, Two<V> b) {
  return {div(a.first, b.first), div(a.second, b.second)};
}
template <class V>
RAPT_INLINE Two<V> fma(Two<V> a, Two<V> b, Two<V> c) {
  return {fma(a.first, b.first, c.first), fma(a.second, b.second, c.second)};
}
template <class V>
RAPT_INLINE Two<V> max(Two<V> a, Two<V> b) {
  return {max(a.first, b.first), max(a.second, b.second)};
}
template <class V>
RAPT_INLINE Two<V> copy_sign(Two<V> magnitude, Two<V> sign) {
  return {copy_sign(magnitude.first, sign.first), copy_sign(magnitude.second, sign.second)};
}
template <class V>
RAPT_INLINE Two<V> abs(Two<V> a) {
  return {abs(a.first), abs(a.second)};
}
template <class V>
RAPT_INLINE Two<V> exp2(Two<V> a) {
  return {exp2(a.first), exp2(a.second)};
}
template <class V>
RAPT_INLINE TwoMasks<V> equal(Two<V> a, Two<V> b) {
  return {equal(a.first, b.first), equal(a.second, b.second)};
}
template <class V>
RAPT_INLINE TwoMasks<V> not_at_most(Two<V> a, Two<V> b) {
  return {not_at_most(a.first, b.first), not_at_most(a.second, b.second)};
}
template <class V>
RAPT_INLINE Two<V> select(TwoMasks<V> m, Two<V> yes, Two<V> no) {
  return {select(m.first, yes.first, no.first), select(m.second, yes.second, no.second)};
}

}  // namespace
}  // namespace rapt::RAPT_ISA
