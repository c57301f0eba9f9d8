// The dot route (kernel_table.h): bf16 by VDPBF16PS, which adds two products to an f32 lane at
// once.
//
//   scores^T = K Q^T: a pair is two neighbouring dims. They are adjacent in a row of K: one 32-bit
//     broadcast without packing (for an even head_dim). Q^T is stored in pairs, not rounded.
//   output^T += V^T P^T: a pair is two keys. Rows of V are interleaved two by two once per block,
//     for all tiles of a task; P^T is rounded to bf16 and paired in one pass over the tile.
//   The sums of the backward pass over queries: dot_gradients.simd.h.
//
// The instruction treats denormal numbers as zero and rounds each product-sum to nearest even
// without fusing: results differ from the FMA route in the last bits of f32. Compiled for AVX-512
// with AVX512_BF16; src/kernels/dot/choose_bf16_dot.cpp decides whether it is used.
#define RAPT_ISA isa_avx512_bf16
#define RAPT_WEIGHTS_OF_16_BITS  // 2^x need not be more exact than rounded weights
#include "kernels/simd/avx512_runs.h"
// The order matters: the vocabulary first.
#include "kernels/dot/bf16_pairs.simd.h"
#include "kernels/dot/dot_bf16.h"
#include "kernels/dot/dot_few_rows.simd.h"
#include "kernels/dot/dot_few_rows_by_terms.simd.h"
#include "kernels/dot/dot_gradients.simd.h"
#include "kernels/vector/bf16_runs.simd.h"
#include "kernels/vector/normalizers.simd.h"
#include "rapt/variants.h"

namespace rapt::RAPT_ISA {
namespace {

// acc[r] += the products of the pairs of row r with those of the vectors.
template <int Rows, int Vectors>
RAPT_INLINE void add_products(__m512 (&acc)[Rows][Vectors], const uint16_t* rows,
                              int64_t row_stride, int64_t step_stride, const Pair* vectors,
                              int64_t steps, const uint16_t* ahead, int64_t ahead_stride) {
  constexpr int64_t kQueries = 16 * Vectors;
  // Unrolled twice: a score of 64 dims has only 32 steps, and the end of a short loop is
  // mispredicted.
  _Pragma("GCC unroll 2") for (int64_t s = 0; s < steps; ++s) {
    __m512i x[Vectors];
    UNROLL_FOR (int k = 0; k < Vectors; ++k) {
      x[k] = _mm512_loadu_si512(vectors + s * kQueries + 16 * k);
      asm("" : "+v"(x[k]));  // stays in a register: see pin()
    }
    prefetch(ahead + s % Rows * ahead_stride + s / Rows * 32);
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      const __m512i pair = pair_at(rows + r * row_stride + s * step_stride);
      UNROLL_FOR (int k = 0; k < Vectors; ++k) acc[r][k] = dot(acc[r][k], pair, x[k]);
    }
  }
}

template <int Rows, int Vectors>
RAPT_INLINE void score_rows(const Pair* query_t, const uint16_t* key, int64_t key_stride,
                            int64_t pairs, float factor, float* out, float* block_max) {
  __m512 acc[Rows][Vectors];
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = _mm512_setzero_ps();
  add_products<Rows, Vectors>(acc, key, key_stride, 2, query_t, pairs, key + Rows * key_stride,
                              key_stride);
  const __m512 factor_v = _mm512_set1_ps(factor);
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    __m512 max_v = _mm512_loadu_ps(block_max + 16 * x);
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      const __m512 s = _mm512_mul_ps(acc[r][x], factor_v);
      _mm512_storeu_ps(out + 16 * (r * Vectors + x), s);
      max_v = _mm512_max_ps(max_v, s);
    }
    _mm512_storeu_ps(block_max + 16 * x, max_v);
  }
}

template <int Vectors>
constexpr int kRows = Vectors <= 2   ? 12
                      : Vectors == 3 ? 8
                                     : 6;

template <int Vectors>
RAPT_NOINLINE void dot_scores(const void* queries, const void* rows, int64_t key_stride,
                              int64_t keys, int64_t head_dim, float factor, float* out,
                              float* block_max) noexcept {
  constexpr int64_t kQueries = 16 * Vectors;
  const auto* query_t = static_cast<const Pair*>(queries);
  const auto* key = static_cast<const uint16_t*>(rows);
  const int64_t pairs = half_of(head_dim);
  UNROLL_FOR (int x = 0; x < Vectors; ++x)
    _mm512_storeu_ps(block_max + 16 * x, _mm512_set1_ps(-__builtin_inff()));
  int64_t j = 0;
  for (; j + kRows<Vectors> <= keys; j += kRows<Vectors>)
    score_rows<kRows<Vectors>, Vectors>(query_t, key + j * key_stride, key_stride, pairs, factor,
                                        out + j * kQueries, block_max);
  for (; j + 4 <= keys; j += 4)
    score_rows<4, Vectors>(query_t, key + j * key_stride, key_stride, pairs, factor,
                           out + j * kQueries, block_max);
  for (; j < keys; ++j)
    score_rows<1, Vectors>(query_t, key + j * key_stride, key_stride, pairs, factor,
                           out + j * kQueries, block_max);
}

template <int Rows, int Vectors>
RAPT_INLINE void output_rows(const Pair* weights, const Pair* value, int64_t value_stride,
                             int64_t pairs, const float* rescale, float* output_t) {
  __m512 acc[Rows][Vectors];
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[r][x] = _mm512_setzero_ps();
  const auto* rows = reinterpret_cast<const uint16_t*>(value);
  add_products<Rows, Vectors>(acc, rows, 2, 2 * value_stride, weights, pairs, rows, 0);
  UNROLL_FOR (int r = 0; r < Rows; ++r)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      float* out = output_t + 16 * (r * Vectors + x);
      const __m512 old = _mm512_loadu_ps(out);
      _mm512_storeu_ps(out, rescale
                                ? _mm512_fmadd_ps(_mm512_loadu_ps(rescale + 16 * x), old, acc[r][x])
                                : _mm512_add_ps(old, acc[r][x]));
    }
}

template <int Vectors>
RAPT_NOINLINE void dot_output(const void* tile, const void* rows, int64_t value_stride,
                              int64_t keys, int64_t value_dim, const float* rescale,
                              float* output_t) noexcept {
  constexpr int64_t kQueries = 16 * Vectors;
  const auto* weights = static_cast<const Pair*>(tile);
  const auto* value = static_cast<const Pair*>(rows);
  const int64_t pairs = half_of(keys);
  int64_t d = 0;
  for (; d + kRows<Vectors> <= value_dim; d += kRows<Vectors>)
    output_rows<kRows<Vectors>, Vectors>(weights, value + d, value_stride, pairs, rescale,
                                         output_t + d * kQueries);
  for (; d + 4 <= value_dim; d += 4)
    output_rows<4, Vectors>(weights, value + d, value_stride, pairs, rescale,
                            output_t + d * kQueries);
  for (; d < value_dim; ++d)
    output_rows<1, Vectors>(weights, value + d, value_stride, pairs, rescale,
                            output_t + d * kQueries);
}

RAPT_NOINLINE void dot_pack_queries(const void* from, int64_t row_stride, int64_t dim_stride,
                                    int64_t rows, int64_t head_dim, float /* in the scores */,
                                    int64_t queries, void* to) noexcept {
  const auto* query = static_cast<const uint16_t*>(from);
  auto* query_t = static_cast<Pair*>(to);
  for (int64_t i = 0; i < queries; i += 16)
    for (int64_t d = 0; d < head_dim; d += 32) {
      F r[16];
      UNROLL_FOR (int x = 0; x < 16; ++x)
        r[x].v = _mm512_castsi512_ps(i + x < rows
                                         ? run_of_row(query + (i + x) * row_stride + d * dim_stride,
                                                      dim_stride, head_dim - d)
                                         : _mm512_setzero_si512());
      transpose(r);
      Pair* out = query_t + d / 2 * queries + i;
      const int64_t pairs = half_of(head_dim - d);
      UNROLL_FOR (int y = 0; y < 16; ++y)
        if (y < pairs) _mm512_storeu_si512(out + y * queries, _mm512_castps_si512(r[y].v));
    }
}

// Packs rows densely with an even number of elements.
RAPT_NOINLINE void dot_pack_keys(const void* from, int64_t row_stride, int64_t dim_stride,
                                 int64_t count, int64_t dims, void* to) noexcept {
  const auto* rows = static_cast<const uint16_t*>(from);
  auto* dense = static_cast<uint16_t*>(to);
  const int64_t even = 2 * half_of(dims);
  for (int64_t j = 0; j < count; ++j)
    for (int64_t d = 0; d < even; d += 32)
      _mm512_mask_storeu_epi16(
          dense + j * even + d, first_of_32(even - d),
          run_of_row(rows + j * row_stride + d * dim_stride, dim_stride, dims - d));
}

// pack_row_pairs() prefetches so many rows ahead into the L2. Rows of a weight may be several KiB
// apart, and a panel reads only 2 lines of each.
constexpr int64_t kPairedRowsAhead = 16;

// [count / 2][stride] pairs of rows; a missing last row is 0.
RAPT_NOINLINE void pack_row_pairs(const uint16_t* rows, int64_t row_stride, int64_t dim_stride,
                                  int64_t count, int64_t dims, int64_t stride,
                                  Pair* pairs) noexcept {
  const __m512i low = interleaving(0), high = interleaving(16);
  for (int64_t j = 0; j < count; j += 2)
    for (int64_t d = 0; d < dims; d += 32) {
      const uint16_t* row = rows + j * row_stride + d * dim_stride;
      const bool both = j + 1 < count, whole = dims - d >= 32 && dim_stride == 1 && both;
      prefetch_far(row + kPairedRowsAhead * row_stride);
      prefetch_far(row + (kPairedRowsAhead + 1) * row_stride);
      const __m512i even = whole ? _mm512_loadu_si512(row) : run_of_row(row, dim_stride, dims - d);
      const __m512i odd = whole  ? _mm512_loadu_si512(row + row_stride)
                          : both ? run_of_row(row + row_stride, dim_stride, dims - d)
                                 : _mm512_setzero_si512();
      Pair* out = pairs + j / 2 * stride + d;
      _mm512_mask_storeu_epi32(out, F::first(dims - d), _mm512_permutex2var_epi16(even, low, odd));
      _mm512_mask_storeu_epi32(out + 16, F::first(dims - d - 16),
                               _mm512_permutex2var_epi16(even, high, odd));
    }
}

// [count / 2][dims rounded up] pairs of rows.
void dot_pack_values(const void* from, int64_t row_stride, int64_t dim_stride, int64_t count,
                     int64_t dims, void* to) noexcept {
  pack_row_pairs(static_cast<const uint16_t*>(from), row_stride, dim_stride, count, dims,
                 2 * half_of(dims), static_cast<Pair*>(to));
}

// Pairs of keys, each weight rounded to bf16.
RAPT_NOINLINE void dot_round_weights(const float* weights, int64_t keys, int64_t queries,
                                     void* to) noexcept {
  auto* pairs = static_cast<Pair*>(to);
  alignas(64) uint16_t order[32];  // even, odd, even, odd ...: merges the halves of a conversion
  for (uint16_t i = 0; i < 16; ++i)
    order[2 * i] = i, order[2 * i + 1] = static_cast<uint16_t>(16 + i);
  const __m512i interleave = _mm512_load_si512(order);
  for (int64_t j = 0; j < keys; j += 2) {
    const float* even = weights + j * queries;
    const bool both = j + 1 < keys;
    for (int64_t x = 0; x < queries; x += 16) {
      const __m512 odd_v = both ? _mm512_loadu_ps(even + queries + x) : _mm512_setzero_ps();
      const auto halves =
          reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd_v, _mm512_loadu_ps(even + x)));
      _mm512_storeu_si512(pairs + j / 2 * queries + x,
                          _mm512_permutexvar_epi16(interleave, halves));
    }
  }
}

RAPT_NOINLINE void dot_output_of_bits(const void* tile, const uint64_t* bits, const void* rows,
                                      int64_t value_stride, int64_t keys, int64_t value_dim,
                                      const float* rescale, int64_t queries,
                                      float* output_t) noexcept {
  const auto* weights = static_cast<const Pair*>(tile);
  const auto* value = static_cast<const Pair*>(rows);
  const __m512i low = _mm512_set1_epi32(0xFFFF), high = _mm512_slli_epi32(low, 16);
  for (int64_t d = 0; d < value_dim; ++d)
    for (int64_t x = 0; x < queries; x += 16) {
      __m512 acc = _mm512_setzero_ps();
      for (int64_t j = 0; j < keys; j += 2) {
        const auto even = static_cast<__mmask16>(bits[j] >> x);
        const auto odd = static_cast<__mmask16>(j + 1 < keys ? bits[j + 1] >> x : 0);
        // The half of a masked key becomes 0 in its lanes, as if its value were finite.
        __m512i pair = pair_at(value + j / 2 * value_stride + d);
        pair = _mm512_mask_and_epi32(pair, static_cast<__mmask16>(~odd), pair, low);
        pair = _mm512_mask_and_epi32(pair, static_cast<__mmask16>(~even), pair, high);
        acc = dot(acc, pair, _mm512_loadu_si512(weights + j / 2 * queries + x));
      }
      float* out = output_t + d * queries + x;
      const __m512 old = _mm512_loadu_ps(out);
      _mm512_storeu_ps(out, rescale ? _mm512_fmadd_ps(_mm512_loadu_ps(rescale + x), old, acc)
                                    : _mm512_add_ps(old, acc));
    }
}

RAPT_NOINLINE bool dot_all_finite(const void* from, int64_t stride, int64_t count,
                                  int64_t dims) noexcept {
  const auto* pairs = static_cast<const Pair*>(from);
  const __m512i exponent = _mm512_set1_epi16(0x7F80);  // all ones: Inf or NaN
  __mmask32 bad = 0;
  for (int64_t j = 0; j < half_of(count); ++j)
    for (int64_t d = 0; d < dims; d += 16) {
      const __m512i x = _mm512_maskz_loadu_epi32(F::first(dims - d), pairs + j * stride + d);
      bad |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(x, exponent), exponent);
    }
  return bad == 0;
}

constexpr ProductKernels<float> kDotProducts[kMaxVectors] = {{dot_scores<1>, dot_output<1>},
                                                             {dot_scores<2>, dot_output<2>},
                                                             {dot_scores<3>, dot_output<3>},
                                                             {dot_scores<4>, dot_output<4>}};

// The products of layers: both sides in pairs of terms, [terms / 2][rows or columns, padded]. So
// the left side is a value and a panel of the right side the weights of an output.
constexpr int64_t kDotPanel = 64;
RAPT_INLINE int64_t padded_to_16(int64_t n) { return (n + 15) & -16; }

RAPT_NOINLINE void dot_pack_side(const void* from, int64_t outer_stride, int64_t term_stride,
                                 int64_t outer, int64_t terms, void* to) noexcept {
  const int64_t padded = padded_to_16(outer);
  if (outer_stride == 1 && term_stride != 1)
    pack_row_pairs(static_cast<const uint16_t*>(from), term_stride, 1, terms, outer, padded,
                   static_cast<Pair*>(to));
  else
    dot_pack_queries(from, outer_stride, term_stride, outer, terms, 1, padded, to);
}
void dot_pack_panels(const void* from, int64_t column_stride, int64_t term_stride, int64_t columns,
                     int64_t terms, void* to) noexcept {
  const auto* right = static_cast<const uint16_t*>(from);
  auto* panel = static_cast<Pair*>(to);
  for (int64_t c = 0; c < columns; c += kDotPanel, panel += kDotPanel * half_of(terms))
    dot_pack_side(right + c * column_stride, column_stride, term_stride,
                  columns - c < kDotPanel ? columns - c : kDotPanel, terms, panel);
}
void dot_add_product(const void* left, const void* panel, int64_t terms, int64_t rows,
                     int64_t columns, float* sums) noexcept {
  kDotProducts[columns / 16 - 1].output(panel, left, padded_to_16(rows), terms, rows, nullptr,
                                        sums);
}
constexpr LayerProducts<float> kDotLayers = {.row_step = 16,
                                             .column_step = 16,
                                             .width = kDotPanel,
                                             .pack_left = dot_pack_side,
                                             .pack_right = dot_pack_panels,
                                             .add_product = dot_add_product,
                                             .few_rows = dot_few_rows,
                                             .few_rows_by_terms = dot_few_rows_by_terms};

constexpr RouteKernels<float> kDotRoute = {
    .kernel = "tile of bf16 dot products",
    .step = 2,
    .element_size = sizeof(uint16_t),
    .weight_size = sizeof(uint16_t),
    .keys_in_place = true,
    .values_in_place = false,
    .products = kDotProducts,
    .grain = 1,
    .long_vectors = 4,
    .normalizers = kNormalizers<F, Normalizers>,
    .pack_queries = dot_pack_queries,
    .pack_keys = dot_pack_keys,
    .pack_values = dot_pack_values,
    .pack_rows = dot_pack_values,
    .round_weights = dot_round_weights,
    .round_for_keys = dot_round_for_keys,
    .output_of_bits = dot_output_of_bits,
    .all_finite = dot_all_finite,
    .key_gradients = {.add = dot_add_to_keys, .add_of_bits = dot_add_to_keys_of_bits},
    .layers = &kDotLayers};

}  // namespace

const RouteKernels<float>& route() noexcept { return kDotRoute; }

float dot_loop(int64_t iterations) noexcept {
  constexpr int kChains = 24;
  __m512 acc[kChains];
  for (int i = 0; i < kChains; ++i) acc[i] = _mm512_set1_ps(1.0f + static_cast<float>(i) * 1e-3f);
  __m512i x = _mm512_set1_epi32(0x3C003C00);  // two bf16 of 1/128
  for (int64_t n = 0; n < iterations; ++n) {
    UNROLL_FOR (int i = 0; i < kChains; ++i) acc[i] = dot(acc[i], x, x);
    asm("" : "+v"(x));
  }
  for (int i = 1; i < kChains; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  return _mm512_cvtss_f32(acc[0]);
}

}  // namespace rapt::RAPT_ISA
