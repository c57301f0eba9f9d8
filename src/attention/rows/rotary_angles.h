#pragma once
// Cosines and sines of the angles of a rotary embedding, in f64.
//
// A position is 64 high + low. A table of the call holds e^(i low f) for all 64 values of low, and
// e^(i 64 high f) is computed when `high` changes. So an angle costs one complex product, and 64
// successive positions cost one sine and one cosine per pair.
#include "attention/call/rotary.h"
#include "base/scratch_places.h"

namespace rapt {

inline constexpr int64_t kMostTileRows = 64;  // of a tile: a mask word

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

  // Writes cos_t and sin_t [pairs][padded] for rows `first_row` + 0, 1, ... of the tensor, which
  // stand at positions `at` of their sequence, of the head at `index`. Columns beyond the last row
  // become 0. `inverse`: of the opposite angles.
  template <class E>
  void fill(const RowPositions& positions, const int64_t* index, int64_t first_row, Positions at,
            bool inverse, int64_t padded, E* cos_t, E* sin_t) const noexcept;

 private:
  struct Run;  // of positions with one high part

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
