#pragma once
// The positions of the queries and keys of a tile in their whole sequences.
//
// Members are always inlined: hooks use them in code that is compiled for one instruction set,
// where the linker could pick a weak copy for every CPU.
#include <cstdint>

namespace rapt {

// The positions start, start + step, ..., `count` of them. Every hook of a variant gets the
// positions of its queries and keys in this form. So tiles of a packed sequence, of a dilated
// pattern or of one machine's share of a long sequence need no second interface.
struct Positions {
  int64_t start = 0;
  int64_t step = 1;  // > 0
  int64_t count = 0;

  [[gnu::always_inline]] int64_t operator[](int64_t i) const noexcept { return start + step * i; }
  [[gnu::always_inline]] int64_t last() const noexcept { return start + step * (count - 1); }
  [[gnu::always_inline]] Positions part(int64_t begin, int64_t end) const noexcept {
    return {start + step * begin, step, end - begin};
  }
};

// One (batch, head) of a problem. Masks are bound to it; scores and normalisers find it in
// tile.head.
struct Head {
  const int64_t* index = nullptr;  // [rank] its index in the leading dimensions of the output
  int rank = 0;
  int64_t q_len = 0;  // of the whole sequences, not of this machine's share
  int64_t k_len = 0;
  const int64_t* leading = nullptr;  // [rank] the lengths of the leading dimensions
};

}  // namespace rapt
