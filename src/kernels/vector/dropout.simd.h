#pragma once
// Dropout within a score tile: the random numbers of its pairs (rapt/dropout.h) and their use.
//
// Philox4x32-10 makes of a counter (c0, c1, c2, c3) and a key (k0, k1) four numbers of 32 bits, by
// ten rounds of
//
//   c0' = upper(m1 c2) ^ c1 ^ k0,  c1' = lower(m1 c2),  c2' = upper(m0 c0) ^ c3 ^ k1,
//   c3' = lower(m0 c0),            k0 += w0,            k1 += w1
//
// with upper and lower the halves of a product of 64 bits. Source: Salmon et al. 2011, "Parallel
// random numbers: as easy as 1, 2, 3", section 4.3 and table 2.
//
// A counter serves one query and four keys. Queries fill the lanes of 64 bits, each of which holds
// a whole product. Bits above the lower half of a factor are never cleared, because the product
// ignores them. The first three rounds need little work: c0 and c2 of the first round are equal for
// all queries, and after the second round c0 depends on the key alone.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

struct Philox {
  static constexpr int kRounds = 10;
  static constexpr uint64_t kM0 = 0xD2511F53, kM1 = 0xCD9E8D57;  // table 2 of the paper
  static constexpr uint32_t kW0 = 0x9E3779B9, kW1 = 0xBB67AE85;  // golden ratio, sqrt(3) - 1
  static constexpr uint64_t kLower = 0xFFFFFFFF;

  // The key of each round, as a scalar and as a vector.
  uint64_t k0[kRounds], k1[kRounds];
  U all_k0[kRounds], all_k1[kRounds];

  explicit Philox(uint64_t seed) {
    auto a = static_cast<uint32_t>(seed), b = static_cast<uint32_t>(seed >> 32);
    for (int r = 0; r < kRounds; ++r, a += kW0, b += kW1) {
      k0[r] = a, k1[r] = b;
      all_k0[r] = U::splat(a), all_k1[r] = U::splat(b);
    }
  }
};

// The queries of a pair of vectors; one holds the even queries (at_least()).
constexpr int64_t kPair = 2 * U::kLanes;

// The counters of a vector of queries after two rounds, without the part of the keys.
struct OfQueries {
  U c2, c3;  // c2 lacks the part of the keys
};
// The part of four keys, including the round key, equal for all queries: of c2 in the second round,
// c0 and c2 in the third, c2 in the fourth.
struct OfKeys {
  uint64_t c2_of_2, c0_of_3, c2_of_3, c2_of_4;
};

RAPT_INLINE OfQueries of_queries(const Philox& p, uint64_t head, const uint64_t* query) {
  const uint64_t product = Philox::kM1 * (head & Philox::kLower);
  const U c0 = exclusive_or(U::load(query), U::splat((product >> 32) ^ p.k0[0]));
  const U next = mul_halves(c0, U::splat(Philox::kM0));
  return {upper_half(next), next};
}

RAPT_INLINE OfKeys of_keys(const Philox& p, uint64_t head, uint64_t four, uint64_t c3) {
  const uint64_t first = Philox::kM0 * (four & Philox::kLower);
  const uint64_t c2 = (first >> 32) ^ c3 ^ p.k1[0];
  const uint64_t second = Philox::kM1 * (c2 & Philox::kLower);
  const uint64_t c0 = (second >> 32) ^ (Philox::kM1 * head & Philox::kLower) ^ p.k0[1];
  const uint64_t third = Philox::kM0 * (c0 & Philox::kLower);
  return {(first & Philox::kLower) ^ p.k1[1], second ^ p.k0[2], (third >> 32) ^ p.k1[2],
          third ^ p.k1[3]};
}

// The four numbers of each of two vectors of queries with four keys, in the lower halves. Two
// vectors go through a round together: one would be bound by the latency of its products, and four
// do not fit into 16 registers.
RAPT_INLINE void philox(const Philox& p, const OfQueries (&q)[2], const OfKeys& k,
                        U (&number)[4][2]) {
  const U m0 = U::splat(Philox::kM0), m1 = U::splat(Philox::kM1);
  auto& [c0, c1, c2, c3] = number;
  // Round 3: c0, c1 and the new c3 depend on the keys alone.
  UNROLL_FOR (int v = 0; v < 2; ++v) {
    c1[v] = mul_halves(exclusive_or(q[v].c2, U::splat(k.c2_of_2)), m1);
    c0[v] = exclusive_or(upper_half(c1[v]), U::splat(k.c0_of_3));
    c2[v] = exclusive_or(q[v].c3, U::splat(k.c2_of_3));
  }
  UNROLL_FOR (int v = 0; v < 2; ++v) {
    const U product = mul_halves(c2[v], m1);
    c3[v] = mul_halves(c0[v], m0);
    c0[v] = exclusive_or(upper_half(product), c1[v], p.all_k0[3]);
    c2[v] = exclusive_or(upper_half(c3[v]), U::splat(k.c2_of_4));
    c1[v] = product;
  }
  UNROLL_FOR (int r = 4; r < Philox::kRounds; ++r)
    UNROLL_FOR (int v = 0; v < 2; ++v) {
      const U product = mul_halves(c2[v], m1), other = mul_halves(c0[v], m0);
      c0[v] = exclusive_or(upper_half(product), c1[v], p.all_k0[r]);
      c2[v] = exclusive_or(upper_half(other), c3[v], p.all_k1[r]);
      c1[v] = product, c3[v] = other;
    }
}

// Draws the numbers of queries whose indices have the same upper 32 bits.
RAPT_NOINLINE void draw_of_half(const Philox& p, uint32_t threshold, uint64_t head,
                                uint64_t first_query, uint64_t first_key, int64_t keys,
                                int64_t queries, int64_t shift, uint64_t* bits) {
  OfQueries q[64 / kPair][2];
  for (int64_t x = 0; x < queries; x += kPair)
    for (int64_t odd = 0; odd < 2; ++odd) {
      uint64_t query[U::kLanes];
      for (int64_t i = 0; i < U::kLanes; ++i)
        query[i] = first_query + static_cast<uint64_t>(x + 2 * i + odd);
      q[x / kPair][odd] = of_queries(p, head, query);
    }
  const uint64_t wanted = queries < 64 ? (uint64_t{1} << queries) - 1 : ~uint64_t{0};
  const uint64_t upper = ((first_query >> 32) << 10) + ((head >> 32) << 21);
  const uint64_t last = (first_key + static_cast<uint64_t>(keys) - 1) / 4;
  for (uint64_t four = first_key / 4; four <= last; ++four) {
    const OfKeys k = of_keys(p, head, four, (four >> 32) + upper);
    uint64_t kept[4] = {};
    for (int64_t x = 0; x < queries; x += kPair) {
      U number[4][2];
      philox(p, q[x / kPair], k, number);
      UNROLL_FOR (int n = 0; n < 4; ++n)
        kept[n] |= at_least(number[n][0], number[n][1], threshold) << x;
    }
    for (uint64_t n = 0; n < 4; ++n)
      if (const uint64_t j = 4 * four + n - first_key; j < static_cast<uint64_t>(keys))
        bits[j] |= (kept[n] & wanted) << shift;
  }
}

void draw(uint64_t seed, uint64_t threshold, int64_t head, int64_t first_query, int64_t first_key,
          int64_t keys, int64_t queries, uint64_t* bits) noexcept {
  const Philox philox(seed);
  for (int64_t j = 0; j < keys; ++j) bits[j] = 0;
  if (keys == 0) return;
  for (int64_t done = 0; done < queries;) {
    const int64_t first = first_query + done;
    const int64_t some = smaller(queries - done, (((first >> 32) + 1) << 32) - first);
    draw_of_half(philox, static_cast<uint32_t>(threshold), static_cast<uint64_t>(head),
                 static_cast<uint64_t>(first), static_cast<uint64_t>(first_key), keys, some, done,
                 bits);
    done += some;
  }
}

template <class V, class E = typename V::Element>
RAPT_NOINLINE void keep(E* tile, const uint64_t* bits, int64_t keys, int64_t queries,
                        E factor) noexcept {
  const V f = V::splat(factor), zero = V::splat(0);
  for (int64_t j = 0; j < keys; ++j, tile += queries)
    for (int64_t x = 0; x < queries; x += V::kLanes)
      store(tile + x, select(mask_of(bits[j] >> x), mul(f, V::load(tile + x)), zero));
}

}  // namespace
}  // namespace rapt::RAPT_ISA
