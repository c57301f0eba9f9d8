#pragma once
// Random rotations of LSH attention: normal numbers by counters (base/philox.h), two per block by
// the formula of Box & Muller 1958, in f64.
#include "base/philox.h"
#include "method/lsh/lsh_sizes.h"

namespace rapt {

// Fills `rows` [rounds * columns][head_dim]: column c of round r is row r * columns + c. Given
// rotations are copied. `head`: the index on the last leading dimension.
template <class E>
void fill_rotations(const Lsh& lsh, const LshSizes& sizes, int64_t head_dim, int64_t head,
                    E* rows) noexcept;

}  // namespace rapt
