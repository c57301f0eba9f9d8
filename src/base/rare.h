#pragma once
// Conditions that few calls, or few tiles, meet.
//
// A tiny call runs its code once, and fetching the code bounds it
// (docs/decisions/tiny_problems.md). Code that depends on a rare condition is compiled behind the
// rest of its function, so that the code of other calls takes fewer cache lines. Where the
// condition holds, it costs a jump.

namespace rapt {

[[gnu::always_inline]] constexpr bool rare(bool condition) noexcept {
  return __builtin_expect(condition, false);
}

}  // namespace rapt
