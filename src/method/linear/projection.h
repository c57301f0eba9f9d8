#pragma once
// Random projections of FAVOR+ (rapt/method/favor.h).
#include <cstdint>

namespace rapt {

// Writes w [rows][dims]: rows of N(0, 1), or orthogonal in blocks of `dims` rows. Allocates
// nothing.
void make_projection(int64_t rows, int64_t dims, uint64_t seed, bool orthogonal,
                     double* w) noexcept;

}  // namespace rapt
