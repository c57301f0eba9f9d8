#pragma once
// Cosines and sines of the angles by which rows turn.
//
// A position is 64 high + low. With e^(i low f) of all 64 low ones in a table of the call, and
// e^(i 64 high f) made where `high` is another than before, an angle costs a complex product, and
// 64 positions in a row one sine and cosine per pair; all in f64.
#include "attention/call/rotary.h"
#include "attention/plan/scratch_places.h"

namespace rapt {

inline constexpr int64_t kMostTileRows = 64;  // of a tile: a mask word

class RotaryAngles {
 public:
  // Bytes of the tables of a call.
  static size_t bytes_for(int64_t pairs) noexcept;

  // Nothing turns.
  RotaryAngles() = default;
  // Fills in the tables at `memory`, 8-byte aligned.
  RotaryAngles(const Rotary& rotary, int64_t head_dim, int64_t pairs, std::byte* memory) noexcept;
  // The tables that another one has filled in there.
  RotaryAngles(int64_t pairs, std::byte* memory) noexcept;

  int64_t pairs() const noexcept { return pairs_; }
  const DimPair* dims() const noexcept { return dims_; }

  // cos_t, sin_t [pairs][padded]: of rows that are `first_row` + 0, 1, ... in the tensor and `at`
  // in their sequence, of the head at `index`; 0 from the last row on. `inverse`: of the angles'
  // opposites.
  template <class E>
  void fill(const RowPositions& positions, const int64_t* index, int64_t first_row, Positions at,
            bool inverse, int64_t padded, E* cos_t, E* sin_t) const noexcept;

 private:
  struct Run;  // of positions

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
