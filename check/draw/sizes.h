#pragma once
// The sizes at which the code path changes, and one below and one above each.
#include <cstdint>
#include <vector>

namespace check {

// Sequence lengths: SIMD lanes (4, 8, 16), tiles of queries (16, 32, 48, 64), blocks of keys (64,
// 96, 128) and two of them.
inline const std::vector<int64_t> kLengths = {
    1,  2,   3,   4,   5,   6,   7,   8,   9,   10,  11,  13,  15,  16,  17,  19, 23, 24,
    25, 31,  32,  33,  37,  40,  41,  47,  48,  49,  53,  61,  63,  64,  65,  67, 95, 96,
    97, 127, 128, 129, 143, 144, 145, 159, 160, 161, 191, 192, 193, 255, 256, 257};

// Head and value dimensions: the remainders of every panel, then the usual ones and their
// neighbours.
inline const std::vector<int64_t> kHeadDims = {1,  2,  3,  4,  5,  6,  7,  8,   9,   10,  11,
                                               12, 13, 14, 15, 16, 17, 18, 19,  20,  31,  32,
                                               33, 40, 63, 64, 65, 80, 96, 127, 128, 129, 256};

}  // namespace check
