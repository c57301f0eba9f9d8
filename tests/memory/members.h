#pragma once
// Visits the members of an aggregate, so that a test needs no list of them.
#include <cstddef>

namespace laws {

struct AnyMember {
  template <class T>
  operator T() const;  // never called
};

// How many members an aggregate has; arrays are not supported.
template <class T, class... Members>
constexpr size_t count_members() {
  if constexpr (requires { T{Members{}..., AnyMember{}}; })
    return count_members<T, Members..., AnyMember>();
  else
    return sizeof...(Members);
}

// Calls visit(member) for each member, at most 20.
template <class T, class Visit>
void for_each_member(const T& of, const Visit& visit) {
  constexpr size_t kCount = count_members<T>();
  static_assert(kCount >= 1 && kCount <= 20);
  const auto all = [&](const auto&... members) { (visit(members), ...); };
#define RAPT_VISIT(count, ...)      \
  if constexpr (kCount == count) {  \
    const auto& [__VA_ARGS__] = of; \
    all(__VA_ARGS__);               \
  }
  RAPT_VISIT(1, a)
  RAPT_VISIT(2, a, b)
  RAPT_VISIT(3, a, b, c)
  RAPT_VISIT(4, a, b, c, d)
  RAPT_VISIT(5, a, b, c, d, e)
  RAPT_VISIT(6, a, b, c, d, e, f)
  RAPT_VISIT(7, a, b, c, d, e, f, g)
  RAPT_VISIT(8, a, b, c, d, e, f, g, h)
  RAPT_VISIT(9, a, b, c, d, e, f, g, h, i)
  RAPT_VISIT(10, a, b, c, d, e, f, g, h, i, j)
  RAPT_VISIT(11, a, b, c, d, e, f, g, h, i, j, k)
  RAPT_VISIT(12, a, b, c, d, e, f, g, h, i, j, k, l)
  RAPT_VISIT(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  RAPT_VISIT(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  RAPT_VISIT(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  RAPT_VISIT(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
  RAPT_VISIT(17, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q)
  RAPT_VISIT(18, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r)
  RAPT_VISIT(19, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s)
  RAPT_VISIT(20, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t)
#undef RAPT_VISIT
}

}  // namespace laws
