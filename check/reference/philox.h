#pragma once
// The pairs that dropout keeps (rapt/dropout.h), written to be read; it shares no code with the
// library.
//
// Philox4x32-10 turns a counter of four numbers and a key of two into four random numbers. Source:
// Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 4.3.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace check {

using FourNumbers = std::array<uint32_t, 4>;

constexpr FourNumbers philox4x32_10(FourNumbers c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

// The random number of query i and key j.
constexpr uint32_t dropout_word(uint64_t seed, uint64_t head, uint64_t i, uint64_t j) {
  constexpr uint64_t k2To32 = uint64_t{1} << 32;
  const uint64_t upper = j / 4 / k2To32 + 1024 * (i / k2To32) + 2097152 * (head / k2To32);
  const FourNumbers words =
      philox4x32_10({static_cast<uint32_t>(j / 4 % k2To32), static_cast<uint32_t>(i % k2To32),
                     static_cast<uint32_t>(head % k2To32), static_cast<uint32_t>(upper % k2To32)},
                    {static_cast<uint32_t>(seed % k2To32), static_cast<uint32_t>(seed / k2To32)});
  return words[j % 4];
}

// The probability with which pairs are dropped: a multiple of 2^-32 below 1.
inline double drawn_probability(double probability) {
  return std::min(std::floor(std::ldexp(probability, 32) + 0.5), std::ldexp(1, 32) - 1) *
         std::ldexp(1, -32);
}

inline bool is_kept(double probability, uint64_t seed, int64_t head, int64_t i, int64_t j) {
  return dropout_word(seed, static_cast<uint64_t>(head), static_cast<uint64_t>(i),
                      static_cast<uint64_t>(j)) >= std::ldexp(drawn_probability(probability), 32);
}

// The factor of the weight of a pair.
template <class Real>
Real dropout_factor(double probability, uint64_t seed, int64_t head, int64_t i, int64_t j) {
  if (probability == 0) return 1;
  if (!is_kept(probability, seed, head, i, j)) return 0;
  return 1 / (1 - static_cast<Real>(drawn_probability(probability)));
}

}  // namespace check
