#pragma once
// Cosines and sines of the angles of a rotary embedding, in f64.
//
// A position is 64 high + low. A table of the call holds e^(i low f) for all 64 values of low, and
// e^(i 64 high f) is computed when `high` changes. So an angle costs one complex product, and 64
// successive positions cost one sine and one cosine per pair.
#include "attention/call/rotary.h"

namespace rapt {

inline constexpr int64_t kMostTileRows = 64;  // of a tile: one bit each in the bits of a mask

class RotaryAngles {
 public:
  // Bytes of the tables of a call.
  static size_t bytes_for(int64_t pairs) noexcept;

  // No rotation.
  RotaryAngles() = default;
  // Fills in the tables at `memory`, 8-byte aligned.
  RotaryAngles(const Rotary& rotary, int64_t head_dim, int64_t pairs, std::byte* memory) noexcept;
  // Uses tables that another instance has filled in at `memory`.
  RotaryAngles(int64_t pairs, std::byte* memory) noexcept;

  int64_t pairs() const noexcept { return pairs_; }
  const DimPair* dims() const noexcept { return dims_; }

  // Writes cos_t and sin_t [pairs][padded] for the rows `first_row` + 0, 1, ... of the tensor, for
  // the head at `index`. `at` are the positions of these rows in their sequence. Columns beyond the
  // last row become 0. `inverse`: for the opposite angles.
  template <class E>
  void fill(const RowPositions& positions, const int64_t* index, int64_t first_row, Positions at,
            bool inverse, int64_t padded, E* cos_t, E* sin_t) const noexcept;

 private:
  struct Run;  // a run of positions with the same high part

  template <class E>
  void look_up(const RowPositions& positions, const int64_t* index, int64_t first_row, Positions at,
               bool inverse, int64_t padded, E* cos_t, E* sin_t) const noexcept;

  int64_t pairs_ = 0;
  DimPair* dims_ = nullptr;      // [pairs]
  int64_t* axis_ = nullptr;      // [pairs]
  double* frequency_ = nullptr;  // [pairs]
  // [pairs][64]: magnitude times the cosine and sine of low times the frequency
  double *low_cos_ = nullptr, *low_sin_ = nullptr;
};

}  // namespace rapt
