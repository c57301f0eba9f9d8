#pragma once
// The products of attention by tile registers (simd/tiles.h): S^T = K Q^T, O^T += V^T P^T, and the
// sums over queries d_key += dS^T Q, d_value += P^T dO, over operands of tile_packing.simd.h.
//
// One step multiplies two tiles of A by two of B into four of C: four loads for four products, so
// that loads, at half a product's time each, can hide behind them. Of numbers in several parts the
// smallest products come first.
//
// The sum of a block is made in registers and then added to what was there, as in products.simd.h.
#include "kernels/kernel_table.h"
#include "kernels/tile_packing.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Registers: C 0 to 3, of A's tile i and B's tile k C 2 i + k; A 4 and 5; B 6 and 7.
RAPT_INLINE void clear_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}

// C += A B over `count` steps, which lie `a_step` and `b_step` bytes apart; of numbers in so many
// parts.
template <int PartsA, int PartsB, int Ranks>
RAPT_INLINE void add_products(const char* a, int64_t a_step, const char* b, int64_t b_step,
                              int64_t count) {
  for (int64_t s = 0; s < count; ++s, a += a_step, b += b_step)
    UNROLL_FOR (int part_a = PartsA - 1; part_a >= 0; --part_a) {
      const int last = PartsB < Ranks - part_a ? PartsB - 1 : Ranks - 1 - part_a;
      tile_load<4>(a + part_a * kPanel, kTileRow);
      UNROLL_FOR (int part_b = last; part_b >= 0; --part_b) {
        tile_load<6>(b + part_b * kPanel, kTileRow);
        tile_multiply<0, 4, 6>();
        tile_load<7>(b + part_b * kPanel + kTile, kTileRow);
        tile_multiply<1, 4, 7>();
        if (part_b == last) tile_load<5>(a + part_a * kPanel + kTile, kTileRow);
        tile_multiply<2, 5, 6>();
        tile_multiply<3, 5, 7>();
      }
    }
}
// By rows alone; by rows and weights; by weights and rows.
template <class S>
RAPT_INLINE void add_row_products(const char* a, int64_t a_step, const char* b, int64_t b_step,
                                  int64_t count) {
  add_products<S::kParts, S::kParts, S::kRanks>(a, a_step, b, b_step, count);
}
template <class S>
RAPT_INLINE void add_weighted_rows(const char* a, int64_t a_step, const char* b, int64_t b_step,
                                   int64_t count) {
  add_products<S::kParts, S::kWeightParts, S::kRanks>(a, a_step, b, b_step, count);
}
template <class S>
RAPT_INLINE void add_weights_by_rows(const char* a, int64_t a_step, const char* b, int64_t b_step,
                                     int64_t count) {
  add_products<S::kWeightParts, S::kParts, S::kRanks>(a, a_step, b, b_step, count);
}

// Bytes of a step of 32 rows and 32 dims, and of an element of a route.
template <class S>
inline constexpr int64_t kPart = S::kSlots* kPanel;
template <class S>
inline constexpr int64_t kElement = S::kSlots* int64_t{sizeof(uint16_t)};

// [32][32] f32, rows `stride` bytes apart.
RAPT_INLINE void store_sums(char* to, int64_t stride) {
  tile_store<0>(to, stride);
  tile_store<1>(to + kTileRow, stride);
  tile_store<2>(to + 16 * stride, stride);
  tile_store<3>(to + 16 * stride + kTileRow, stride);
}

// Scores of a panel of keys and of queries, as the products left them: their maximum and, if
// kScaled, the factor, by which both are multiplied.
template <bool kScaled>
RAPT_INLINE void finish_scores(float* scores, int64_t queries, int64_t rows, F factor,
                               float* block_max) {
  // Two chains a vector: a maximum takes four cycles.
  F even[2], odd[2];
  const auto take = [&](float* row, F(&most)[2]) {
    UNROLL_FOR (int x = 0; x < 2; ++x) {
      F s = F::load(row + 16 * x);
      if constexpr (kScaled) store(row + 16 * x, s = mul(s, factor));
      most[x] = max(most[x], s);
    }
  };
  UNROLL_FOR (int x = 0; x < 2; ++x) even[x] = odd[x] = F::load(block_max + 16 * x);
  int64_t r = 0;
  for (; r + 1 < rows; r += 2)
    take(scores + r * queries, even), take(scores + (r + 1) * queries, odd);
  if (r < rows) take(scores + r * queries, even);
  UNROLL_FOR (int x = 0; x < 2; ++x) store(block_max + 16 * x, max(even[x], odd[x]));
}

// What is done between products, where they can overlap with it.
struct Nothing {
  RAPT_INLINE void operator()() const {}
};
// Work in pieces, dealt out evenly over `steps` calls of the `between` that products(between) is
// given; what is left follows.
template <class Work, class Products>
RAPT_INLINE void deal_out(Work& work, int64_t steps, const Products& products) {
  const int64_t share = steps > 0 ? (work.pieces() << 16) / steps : 0;  // of a step, in 2^-16
  int64_t due = 0;
  products([&] {
    due += share;
    work.advance(due >> 16);
  });
  work.finish();
}

// Dots of a tile, panel by panel: `between` is called after each step of a product, stored(j, q)
// when those of 32 keys and queries from there on are in memory.
template <class S, class Between, class Stored>
RAPT_INLINE void make_dots(const StageDots<float>& of, const Between& between,
                           const Stored& stored) {
  const int64_t depth = panels(of.dims), queries = of.queries;
  const auto* const columns = static_cast<const char*>(of.columns);
  const auto* rows = static_cast<const char*>(of.rows);
  for (int64_t j = 0; j < of.keys; j += kStep, rows += kStep * of.row_stride * kElement<S>)
    for (int64_t q = 0; q < queries; q += kStep) {
      clear_sums();
      const char* const column = columns + q / kStep * depth * kPart<S>;
      for (int64_t s = 0; s < depth; ++s) {
        add_row_products<S>(rows + s * kPart<S>, 0, column + s * kPart<S>, 0, 1);
        between();
      }
      store_sums(reinterpret_cast<char*>(of.dots + j * queries + q), queries * 4);
      stored(j, q);
    }
}

// S^T of a tile, multiplied by the factor if kScaled, likewise.
template <class S, bool kScaled, class Between>
RAPT_INLINE void make_scores(const StageScores<float>& of, const Between& between) {
  const int64_t queries = of.queries;
  const F factor = F::splat(of.factor);
  for (int64_t x = 0; x < queries; x += F::kLanes)
    store(of.block_max + x, F::set(-__builtin_inf()));
  // A panel's scores are read back behind the products of the next one.
  float *stored = nullptr, *maxima = nullptr;
  int64_t stored_rows = 0;
  const auto finish = [&] {
    if (stored) finish_scores<kScaled>(stored, queries, stored_rows, factor, maxima);
  };
  make_dots<S>({of.query_t, of.key, of.key_stride, of.keys, of.head_dim, queries, of.scores},
               between, [&](int64_t j, int64_t q) {
                 finish();
                 stored = of.scores + j * queries + q, maxima = of.block_max + q;
                 stored_rows = of.keys - j < kStep ? of.keys - j : kStep;
               });
  finish();
}

template <class S, int Panels>
RAPT_NOINLINE void tile_scores(const void* query_t, const void* key, int64_t key_stride,
                               int64_t keys, int64_t head_dim, float factor, float* scores,
                               float* block_max) noexcept {
  make_scores<S, true>(
      {query_t, key, key_stride, keys, head_dim, kStep * Panels, factor, false, scores, block_max},
      Nothing{});
}

// A sum of products with weights.
template <class S>
RAPT_INLINE F load_sum(const float* sum) {
  return S::kWeightScale == 1 ? F::load(sum) : mul(F::load(sum), F::splat(1 / S::kWeightScale));
}

template <class S>
RAPT_INLINE void finish_output(const float* sums /* [32][32] */, int64_t rows, const float* rescale,
                               int64_t queries, float* output_t) {
  UNROLL_FOR (int x = 0; x < 2; ++x)
    for (int64_t r = 0; r < rows; ++r) {
      float* const at = output_t + r * queries + 16 * x;
      const F sum = load_sum<S>(sums + r * kStep + 16 * x), old = F::load(at);
      store(at, rescale ? fma(F::load(rescale + 16 * x), old, sum) : add(old, sum));
    }
}

// O^T of a tile, likewise.
template <class S, class Between>
RAPT_INLINE void make_output(const StageOutput<float>& of, const Between& between) {
  const int64_t steps = panels(of.keys), queries = of.queries;
  const int64_t value_step = kStep * of.value_stride * kElement<S>;
  const int64_t weight_step = queries / kStep * kPart<S>;
  const auto* const columns = static_cast<const char*>(of.rounded);
  const auto* const rows = static_cast<const char*>(of.value);
  alignas(64) float sums[2][kStep * kStep];
  int nth = 0;
  float* to = nullptr;
  const float* factor = nullptr;
  int64_t dims = 0;
  const auto finish = [&] {
    if (to) finish_output<S>(sums[nth ^ 1], dims, factor, queries, to);
  };
  for (int64_t d = 0; d < of.value_dim; d += kStep)
    for (int64_t q = 0; q < queries; q += kStep) {
      clear_sums();
      const char* const row = rows + d / kStep * kPart<S>;
      const char* const column = columns + q / kStep * kPart<S>;
      for (int64_t s = 0; s < steps; ++s) {
        add_weighted_rows<S>(row + s * value_step, 0, column + s * weight_step, 0, 1);
        between();
      }
      store_sums(reinterpret_cast<char*>(sums[nth]), kStep * 4);
      finish();
      nth ^= 1;
      to = of.output_t + d * queries + q;
      factor = of.rescale ? of.rescale + q : nullptr;
      dims = of.value_dim - d < kStep ? of.value_dim - d : kStep;
    }
  finish();
}

template <class S, int Panels>
RAPT_NOINLINE void tile_output(const void* weights, const void* value, int64_t value_stride,
                               int64_t keys, int64_t value_dim, const float* rescale,
                               float* output_t) noexcept {
  make_output<S>({weights, value, value_stride, keys, value_dim, kStep * Panels, rescale, output_t},
                 Nothing{});
}

// Rows and columns [32][32] of a gradient += sums, as far as they are there.
template <class S>
RAPT_INLINE void add_to_rows(const float* sums, int64_t rows, int64_t columns, float* gradient,
                             int64_t stride) {
  for (int64_t r = 0; r < rows; ++r)
    UNROLL_FOR (int x = 0; x < 2; ++x) {
      float* const at = gradient + r * stride + 16 * x;
      const int64_t n = columns - 16 * x;
      store_first(at, add(F::load_first(at, n), load_sum<S>(sums + r * kStep + 16 * x)), n);
    }
}

// The panels of a span that meet one of keys and one of dims.
template <class S>
struct SpanPanels {
  const char *weights, *rows;
  int64_t rows_step, count;
  SpanPanels(const GradientSpan<float>& span, int64_t keys_before, int64_t dims_before)
      : weights(static_cast<const char*>(span.weights) +
                keys_before / kStep * (span.queries / kStep) * kPart<S>),
        rows(static_cast<const char*>(span.rows) + dims_before / kStep * kPart<S>),
        rows_step(kStep * span.row_stride * kElement<S>),
        count(panels(span.count)) {}
};

// The gradient of a block of keys, with `between` called after each step of a product.
template <class S, class Between>
RAPT_INLINE void make_key_sums(const GradientSpan<float>* spans, int64_t span_count, int64_t keys,
                               int64_t dims, float* gradient, int64_t stride,
                               const Between& between) {
  alignas(64) float sums[2][kStep * kStep];
  int nth = 0;
  float* to = nullptr;
  int64_t rows = 0, columns = 0;
  const auto finish = [&] {
    if (to) add_to_rows<S>(sums[nth ^ 1], rows, columns, to, stride);
  };
  for (int64_t j = 0; j < keys; j += kStep)
    for (int64_t d = 0; d < dims; d += kStep) {
      clear_sums();
      for (int64_t s = 0; s < span_count; ++s) {
        const SpanPanels<S> at(spans[s], j, d);
        for (int64_t i = 0; i < at.count; ++i) {
          add_weights_by_rows<S>(at.weights + i * kPart<S>, 0, at.rows + i * at.rows_step, 0, 1);
          between();
        }
      }
      store_sums(reinterpret_cast<char*>(sums[nth]), kStep * 4);
      finish();
      nth ^= 1;
      to = gradient + j * stride + d;
      rows = keys - j < kStep ? keys - j : kStep, columns = dims - d;
    }
  finish();
}

template <class S>
RAPT_NOINLINE void tile_add_to_keys(const GradientSpan<float>* spans, int64_t span_count,
                                    int64_t keys, int64_t dims, float* gradient,
                                    int64_t stride) noexcept {
  make_key_sums<S>(spans, span_count, keys, dims, gradient, stride, Nothing{});
}

}  // namespace
}  // namespace rapt::RAPT_ISA
