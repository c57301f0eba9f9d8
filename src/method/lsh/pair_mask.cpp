#include "method/lsh/pair_mask.h"

#include <algorithm>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace rapt {
namespace {

// Four queries and one key; every element is all ones or zeros.
#if defined(__SSE2__)  // every x86-64
struct FourPairs {
  __m128i bits;

  static FourPairs load(const int32_t* numbers) noexcept {
    return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(numbers))};
  }
  static FourPairs splat(int32_t number) noexcept { return {_mm_set1_epi32(number)}; }
  friend FourPairs operator==(FourPairs a, FourPairs b) noexcept {
    return {_mm_cmpeq_epi32(a.bits, b.bits)};
  }
  friend FourPairs operator>(FourPairs a, FourPairs b) noexcept {
    return {_mm_cmpgt_epi32(a.bits, b.bits)};
  }
  friend FourPairs operator|(FourPairs a, FourPairs b) noexcept {
    return {_mm_or_si128(a.bits, b.bits)};
  }
  friend FourPairs operator&(FourPairs a, FourPairs b) noexcept {
    return {_mm_and_si128(a.bits, b.bits)};
  }
  FourPairs without(FourPairs excluded) const noexcept {
    return {_mm_andnot_si128(excluded.bits, bits)};
  }
};

uint64_t bits_of(const FourPairs (&four)[4]) noexcept {
  const __m128i low = _mm_packs_epi32(four[0].bits, four[1].bits);
  const __m128i high = _mm_packs_epi32(four[2].bits, four[3].bits);
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_packs_epi16(low, high)));
}
#else
struct FourPairs {
  int32_t of[4];

  template <class F>
  static FourPairs each(const F& f) noexcept {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static FourPairs load(const int32_t* numbers) noexcept {
    return each([&](int i) { return numbers[i]; });
  }
  static FourPairs splat(int32_t number) noexcept {
    return each([&](int) { return number; });
  }
  friend FourPairs operator==(FourPairs a, FourPairs b) noexcept {
    return each([&](int i) { return -int32_t{a.of[i] == b.of[i]}; });
  }
  friend FourPairs operator>(FourPairs a, FourPairs b) noexcept {
    return each([&](int i) { return -int32_t{a.of[i] > b.of[i]}; });
  }
  friend FourPairs operator|(FourPairs a, FourPairs b) noexcept {
    return each([&](int i) { return a.of[i] | b.of[i]; });
  }
  friend FourPairs operator&(FourPairs a, FourPairs b) noexcept {
    return each([&](int i) { return a.of[i] & b.of[i]; });
  }
  FourPairs without(FourPairs excluded) const noexcept {
    return each([&](int i) { return of[i] & ~excluded.of[i]; });
  }
};

uint64_t bits_of(const FourPairs (&four)[4]) noexcept {
  uint64_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<uint64_t>(four[i / 4].of[i % 4] & 1) << i;
  return bits;
}
#endif

}  // namespace

const Declaration PairMask::kDeclaration = {
    "lsh_pairs",
    "the pairs that meet in a round of LSH attention for the first time",
    "Kitaev et al. 2020, arXiv:2001.04451",
    {}};

void PairMask::check(Shape, int64_t, int64_t) const {}

void PairMask::bind(const Head& head, BoundMask* bound) const noexcept {
  bound->values[0] = head.rank > 0 ? head.index[0] * chunk : 0;
}

KeyRange PairMask::key_range(const BoundMask& bound, Positions queries) const noexcept {
  if (chunk > 0) return {0, bound.k_len};
  const int32_t* const of_queries = query_chunk + earlier_rounds * query_stride;
  const int32_t* const of_keys = key_chunk + earlier_rounds * key_stride;
  const int32_t* const end = of_keys + bound.k_len;
  return {std::lower_bound(of_keys, end, of_queries[queries.start]) - of_keys,
          std::upper_bound(of_keys, end, of_queries[queries.last()]) - of_keys};
}

Cover PairMask::cover(const BoundMask&, Positions, Positions) const noexcept {
  return Cover::some;  // the caller reads the bits next, and trims keys without a query
}

uint64_t PairMask::pairs_of_16(int64_t query, int64_t key) const noexcept {
  const FourPairs position = FourPairs::splat(positions[key]);
  FourPairs allowed[4];
  for (int v = 0; v < 4; ++v) {
    allowed[v] = FourPairs::load(limit + query + 4 * v) > position;
    if (self) allowed[v] = allowed[v].without(FourPairs::load(self + query + 4 * v) == position);
  }
  // Rows are sorted by position within a bucket, so in a causal call many keys come after all 16
  // queries.
  if (earlier_rounds + same_chunks > 0 && bits_of(allowed) == 0) return 0;
  const auto met = [&](int64_t relation, FourPairs number, int v) {
    const int64_t at = relation * query_stride + query + 4 * v;
    return (FourPairs::load(query_chunk + at) == number) |
           (FourPairs::load(query_before + at) == number);
  };
  for (int64_t r = 0; r < earlier_rounds; ++r) {
    const FourPairs number = FourPairs::splat(key_chunk[r * key_stride + key]);
    for (int v = 0; v < 4; ++v) allowed[v] = allowed[v].without(met(r, number, v));
  }
  if (same_chunks) {
    const FourPairs number = FourPairs::splat(key_chunk[earlier_rounds * key_stride + key]);
    for (int v = 0; v < 4; ++v) allowed[v] = allowed[v] & met(earlier_rounds, number, v);
  }
  return bits_of(allowed);
}

void PairMask::exclude(const BoundMask& bound, Positions queries, Positions keys,
                       uint64_t* bits) const noexcept {
  const int64_t query = bound.values[0] + queries.start, key = bound.values[0] + keys.start;
  uint64_t any = 0;
  for (int64_t j = 0; j < keys.count; ++j) {
    uint64_t allowed = 0;
    if (positions[key + j] >= 0)
      for (int64_t i = 0; i < queries.count; i += 16)
        allowed |= pairs_of_16(query + i, key + j) << i;
    any |= bits[j] &= allowed;
  }
  if (!attended) return;
  for (int64_t i = 0; i < queries.count; ++i)
    attended[query + i] |= static_cast<uint8_t>(any >> i & 1);
}

}  // namespace rapt
