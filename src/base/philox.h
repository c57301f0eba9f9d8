#pragma once
// Philox4x32-10, random numbers by counters: Salmon et al. 2011, "Parallel random numbers: as easy
// as 1, 2, 3", section 4.3. The same bits on every machine, without state and without order.
//
//   key      (seed mod 2^32, seed / 2^32)
//   counter  (block mod 2^32, block / 2^32, stream mod 2^32, stream / 2^32)
#include <cstdint>

namespace rapt {

// The four numbers of a block as two words: the first two and the last two, the lower half first.
struct PhiloxWords {
  uint64_t even, odd;
};

inline PhiloxWords philox4x32_10(uint64_t seed, uint64_t stream, uint64_t block) noexcept {
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  auto c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32);
  auto c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    const uint64_t a = uint64_t{0xD2511F53} * c0, b = uint64_t{0xCD9E8D57} * c2;
    c0 = static_cast<uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<uint32_t>(b);
    c2 = static_cast<uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<uint32_t>(a);
  }
  return {c0 | uint64_t{c1} << 32, c2 | uint64_t{c3} << 32};
}

}  // namespace rapt
