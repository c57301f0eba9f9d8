// The prefilter by VPDPBUSD, which adds four products of 8 bits to a 32-bit lane at once: lanes are
// queries, and four dims of a key are one broadcast, as in products.simd.h. The instruction
// multiplies unsigned by signed 8-bit integers; the keys are the unsigned factor, offset by 128.
// Compiled for AVX-512 with AVX512_VNNI; src/kernels/prefilter/prefilter.cpp decides whether it is
// used.
#define RAPT_ISA isa_avx512_vnni
#include "kernels/prefilter/prefilter_vnni.h"

#include <immintrin.h>

#include "kernels/inlining.h"

namespace rapt::RAPT_ISA {
namespace {

constexpr int64_t kLanes = 16;
constexpr float kMostNumber = 127;
constexpr int kMiddle = 128;

// Only rows whose largest number is between these limits are rounded. Then a bound that overflows
// in units is above or below every score, and no unit is so small that the error of denormal scores
// reaches one unit.
constexpr float kLeast = 0x1p-40f, kMost = 0x1p40f;

// Norms are sums of at most 2^12 squares in f32, at most 2^-13 too small. Numbers in units have an
// error of 2^-24 times 127 each. Both are doubled here.
static_assert(kMostPrefilterDims <= 1 << 12);
constexpr float kNormFactor = 1 + 0x1p-11f, kErrorOfNumber = 0x1p-16f;

// A score is a chain of `dims` roundings of 2^-24 each. Doubled here.
constexpr float kErrorOfStep = 0x1p-23f;

RAPT_INLINE __m512 infinity() { return _mm512_set1_ps(__builtin_inff()); }

// The largest magnitude so far, as bits: a NaN is larger than everything.
RAPT_INLINE __m512i larger(__m512i most, __m512 x) {
  return _mm512_max_epu32(most, _mm512_castps_si512(_mm512_abs_ps(x)));
}

// For a vector of numbers in units: n, and the sums of n, of the squares of the numbers, and of the
// squares of the rests.
struct Sums {
  __m512 squares = _mm512_setzero_ps(), rests = _mm512_setzero_ps();

  RAPT_INLINE __m512i add(__m512 x) {
    // Rounds to nearest in any mode of the processor, because 127 plus an error must not become
    // 128.
    const __m512i n = _mm512_cvt_roundps_epi32(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const __m512 rest = _mm512_sub_ps(x, _mm512_cvtepi32_ps(n));
    squares = _mm512_fmadd_ps(x, x, squares);
    rests = _mm512_fmadd_ps(rest, rest, rests);
    return n;
  }
};

// An upper bound of a norm from a sum of squares.
RAPT_INLINE __m512 norm_of(__m512 squares, float added) {
  return _mm512_fmadd_ps(_mm512_sqrt_ps(squares), _mm512_set1_ps(kNormFactor),
                         _mm512_set1_ps(added));
}

RAPT_NOINLINE void round_keys(const float* rows, int64_t stride, int64_t count, int64_t dims,
                              uint8_t* to, KeyGroup* group) noexcept {
  const int64_t padded = (dims + kPrefilterDims - 1) & -kPrefilterDims;
  const auto lanes_of = [](int64_t left) {
    return static_cast<__mmask16>(left >= kLanes ? 0xFFFF : (1 << left) - 1);
  };
  __m512i most_bits = _mm512_castps_si512(_mm512_set1_ps(kLeast));
  for (int64_t r = 0; r < count; ++r)
    for (int64_t d = 0; d < dims; d += kLanes)
      most_bits =
          larger(most_bits, _mm512_maskz_loadu_ps(lanes_of(dims - d), rows + r * stride + d));
  const auto bits = _mm512_reduce_max_epu32(most_bits);
  const float most = __builtin_bit_cast(float, bits);
  const bool known = bits <= __builtin_bit_cast(uint32_t, kMost);
  const float per_unit = known ? kMostNumber / most : 0;
  const __m512 factor = _mm512_set1_ps(per_unit);
  float squares = 0, rests = 0;
  for (int64_t r = 0; r < kPrefilterGroup; ++r) {
    const float* const row = rows + (r < count ? r : 0) * stride;
    Sums sums;
    for (int64_t d = 0; d < padded; d += kLanes) {
      const __mmask16 there = r < count && known ? lanes_of(dims - d) : 0;
      const __m512 x = _mm512_mul_ps(_mm512_maskz_loadu_ps(there, row + d), factor);
      const __m512i number = _mm512_add_epi32(sums.add(x), _mm512_set1_epi32(kMiddle));
      _mm_mask_storeu_epi8(to + r * padded + d, lanes_of(padded - d), _mm512_cvtepi32_epi8(number));
    }
    const float of_row = _mm512_reduce_add_ps(sums.squares);
    const float rest_of_row = _mm512_reduce_add_ps(sums.rests);
    squares = of_row > squares ? of_row : squares;
    rests = rest_of_row > rests ? rest_of_row : rests;
  }
  const float error = kErrorOfNumber * __builtin_sqrtf(static_cast<float>(dims));
  const float rest = __builtin_sqrtf(rests) * kNormFactor + error;
  const float norm = __builtin_sqrtf(squares) * kNormFactor + error + rest;
  const float unknown = __builtin_inff();
  group->per_unit = known ? per_unit : 1;
  group->norm = known ? norm : unknown;
  group->rest = known ? rest + kErrorOfStep * static_cast<float>(dims) * norm : unknown;
}

RAPT_NOINLINE void round_queries(const float* query_t, int64_t dims, int64_t queries,
                                 const PrefilterQueries& to) noexcept {
  const float error = kErrorOfNumber * __builtin_sqrtf(static_cast<float>(dims));
  for (int64_t i = 0; i < queries; i += kLanes) {
    const float* const column = query_t + i;
    __m512i most_bits = _mm512_castps_si512(_mm512_set1_ps(kLeast));
    for (int64_t d = 0; d < dims; ++d)
      most_bits = larger(most_bits, _mm512_loadu_ps(column + d * queries));
    const __mmask16 known =
        _mm512_cmple_epu32_mask(most_bits, _mm512_castps_si512(_mm512_set1_ps(kMost)));
    const __m512 per_unit =
        _mm512_maskz_div_ps(known, _mm512_set1_ps(kMostNumber), _mm512_castsi512_ps(most_bits));
    Sums sums;
    __m512i total = _mm512_setzero_si512();
    for (int64_t d = 0; d < dims; d += kPrefilterDims) {
      __m512i four = _mm512_setzero_si512();
      for (int64_t e = 0; e < kPrefilterDims && d + e < dims; ++e) {
        const __m512 x =
            _mm512_mul_ps(_mm512_maskz_loadu_ps(known, column + (d + e) * queries), per_unit);
        const __m512i n = sums.add(x);
        total = _mm512_add_epi32(total, n);
        const __m512i byte = _mm512_and_si512(n, _mm512_set1_epi32(0xFF));
        four = _mm512_or_si512(four,
                               _mm512_sllv_epi32(byte, _mm512_set1_epi32(static_cast<int>(8 * e))));
      }
      _mm512_storeu_si512(to.numbers + (d / kPrefilterDims * queries + i) * kPrefilterDims, four);
    }
    _mm512_storeu_si512(to.start + i, _mm512_mullo_epi32(total, _mm512_set1_epi32(-kMiddle)));
    _mm512_storeu_ps(to.per_unit + i, per_unit);
    const auto store_norm = [&](float* at, __m512 squares) {
      _mm512_storeu_ps(at + i, _mm512_mask_blend_ps(known, infinity(), norm_of(squares, error)));
    };
    store_norm(to.norm, sums.squares);
    store_norm(to.rest, sums.rests);
  }
}

// The largest sums n_q . n_k of a group for which the score is not above the bound. NaN, from which
// nothing follows, becomes the smallest integer.
RAPT_INLINE __m512i most_of(__m512 bound, __m512 norm, __m512 rest, const KeyGroup& group) {
  constexpr float kLarge = 0x1p30f;  // above all sums
  __m512 most = _mm512_mul_ps(bound, _mm512_set1_ps(group.per_unit));
  most = _mm512_fnmadd_ps(norm, _mm512_set1_ps(group.rest), most);
  most = _mm512_fnmadd_ps(rest, _mm512_set1_ps(group.norm), most);
  most = _mm512_sub_ps(most, _mm512_set1_ps(1));  // rounding to a whole number
  return _mm512_cvtps_epi32(_mm512_min_ps(_mm512_set1_ps(kLarge), most));
}

// sums += products of the unsigned numbers of keys and the signed numbers of queries. With the
// intrinsic, g++ 12 makes two register copies for each one in the inner loop.
RAPT_INLINE void add_products(__m512i& sums, __m512i keys, __m512i queries) {
  asm("vpdpbusd %2, %1, %0" : "+v"(sums) : "v"(keys), "v"(queries));
}

// Handles `Rows` keys of a group, from key `row` on, counted from the first requested key; some may
// not exist.
template <int Rows, int Vectors>
RAPT_INLINE void find_rows(const PrefilterQueries& q, int64_t steps, const uint8_t* keys,
                           const __m512i* most, int64_t row, int64_t count, int32_t* found,
                           int64_t stride, int32_t* counts) {
  constexpr int64_t kQueries = kLanes * Vectors;
  const int64_t key_stride = steps * kPrefilterDims;
  __m512i acc[Rows][Vectors];
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    const __m512i start = _mm512_loadu_si512(q.start + x * kLanes);
    UNROLL_FOR (int r = 0; r < Rows; ++r) acc[r][x] = start;
  }
  const int8_t* numbers = q.numbers;
  for (int64_t s = 0; s < steps; ++s, numbers += kQueries * kPrefilterDims) {
    __m512i n[Vectors];
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      n[x] = _mm512_loadu_si512(numbers + x * kLanes * kPrefilterDims);
      asm("" : "+v"(n[x]));  // stays in a register: see pin()
    }
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      int32_t four;
      __builtin_memcpy(&four, keys + r * key_stride + s * kPrefilterDims, sizeof four);
      const __m512i k = _mm512_set1_epi32(four);
      UNROLL_FOR (int x = 0; x < Vectors; ++x) add_products(acc[r][x], k, n[x]);
    }
  }
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    int32_t* const list = found + x * stride;
    int32_t at = counts[x];
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      list[at] = static_cast<int32_t>(row + r);
      const bool asked = static_cast<uint64_t>(row + r) < static_cast<uint64_t>(count);
      at += asked & (_mm512_cmpgt_epi32_mask(acc[r][x], most[x]) != 0);
    }
    counts[x] = at;
  }
}

template <int Vectors>
RAPT_NOINLINE int64_t find_of(const PrefilterQueries& q, const float* bounds, int64_t dims,
                              const uint8_t* keys, const KeyGroup* groups, int64_t first,
                              int64_t count, int32_t* found, int64_t stride,
                              int32_t* counts) noexcept {
  constexpr int kRows = Vectors == 4 ? 4 : kPrefilterGroup;
  const int64_t steps = (dims + kPrefilterDims - 1) / kPrefilterDims;
  float in_units[kLanes * Vectors];
  for (int x = 0; x < Vectors; ++x) {
    const __m512 bound = _mm512_mul_ps(_mm512_loadu_ps(bounds + x * kLanes),
                                       _mm512_loadu_ps(q.per_unit + x * kLanes));
    // Slightly less, for the roundings here and in most_of(). Infinity, which no score exceeds,
    // stays infinite.
    const __m512 less = _mm512_fnmadd_ps(_mm512_abs_ps(bound), _mm512_set1_ps(0x1p-20f), bound);
    const __mmask16 endless = _mm512_cmpeq_ps_mask(bound, infinity());
    _mm512_storeu_ps(in_units + x * kLanes, _mm512_mask_blend_ps(endless, less, bound));
    counts[x] = 0;
  }
  for (int64_t group = first / kPrefilterGroup; group * kPrefilterGroup < first + count; ++group) {
    __m512i most[Vectors];
    UNROLL_FOR (int x = 0; x < Vectors; ++x)
      most[x] =
          most_of(_mm512_loadu_ps(in_units + x * kLanes), _mm512_loadu_ps(q.norm + x * kLanes),
                  _mm512_loadu_ps(q.rest + x * kLanes), groups[group]);
    for (int64_t r = 0; r < kPrefilterGroup; r += kRows) {
      const int64_t key = group * kPrefilterGroup + r;
      find_rows<kRows, Vectors>(q, steps, keys + key * steps * kPrefilterDims, most, key - first,
                                count, found, stride, counts);
    }
  }
  int64_t sum = 0;
  for (int x = 0; x < Vectors; ++x) sum += counts[x];
  return sum;
}

int64_t find(const PrefilterQueries& queries, const float* bounds, int vectors, int64_t dims,
             const uint8_t* keys, const KeyGroup* groups, int64_t first, int64_t count,
             int32_t* found, int64_t stride, int32_t* counts) noexcept {
  const auto kernel = vectors == 1   ? find_of<1>
                      : vectors == 2 ? find_of<2>
                      : vectors == 3 ? find_of<3>
                                     : find_of<4>;
  return kernel(queries, bounds, dims, keys, groups, first, count, found, stride, counts);
}

// Scores of `Rows` listed keys and one vector of queries, each the chain of FMAs that
// products.simd.h makes.
template <int Rows>
RAPT_INLINE void listed_scores(const float* query_t, int64_t queries, const float* key,
                               int64_t key_stride, int64_t dims, const int32_t* list, float* scores,
                               __m512& most) {
  const float* row[Rows];
  __m512 acc[Rows];
  UNROLL_FOR (int r = 0; r < Rows; ++r) {
    row[r] = key + list[r] * key_stride;
    acc[r] = _mm512_setzero_ps();
  }
  for (int64_t d = 0; d < dims; ++d, query_t += queries) {
    const __m512 q = _mm512_loadu_ps(query_t);
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(row[r][d]), q, acc[r]);
  }
  UNROLL_FOR (int r = 0; r < Rows; ++r) {
    _mm512_storeu_ps(scores + list[r] * queries, acc[r]);
    most = _mm512_max_ps(most, acc[r]);
  }
}

RAPT_NOINLINE void scores(const float* query_t, const float* key, int64_t key_stride, int64_t count,
                          int64_t dims, int vectors, const int32_t* found, int64_t stride,
                          const int32_t* counts, float* out, float* block_max) noexcept {
  const __m512 none = _mm512_set1_ps(-__builtin_inff());
  const int64_t queries = kLanes * vectors;
  for (int64_t at = 0; at < count * queries; at += kLanes) _mm512_storeu_ps(out + at, none);
  for (int x = 0; x < vectors; ++x, query_t += kLanes, out += kLanes, found += stride) {
    __m512 most = none;
    int32_t c = 0;
    for (; c + 8 <= counts[x]; c += 8)
      listed_scores<8>(query_t, queries, key, key_stride, dims, found + c, out, most);
    for (; c + 4 <= counts[x]; c += 4)
      listed_scores<4>(query_t, queries, key, key_stride, dims, found + c, out, most);
    for (; c < counts[x]; ++c)
      listed_scores<1>(query_t, queries, key, key_stride, dims, found + c, out, most);
    _mm512_storeu_ps(block_max + x * kLanes, most);
  }
}

constexpr PrefilterKernels kPrefilter = {round_keys, round_queries, find, scores};

}  // namespace

const PrefilterKernels& prefilter() noexcept { return kPrefilter; }

}  // namespace rapt::RAPT_ISA
