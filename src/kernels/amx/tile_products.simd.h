#pragma once
// The products of attention by tile registers (simd/tiles.h): S^T = K Q^T, O^T += V^T P^T, and the
// sums over queries d_key += dS^T Q, d_value += P^T dO, over operands of tile_packing.simd.h.
//
// One step multiplies two tiles of A by two of B into four of C. Four loads serve four products, so
// that loads, which take half the time of a product, overlap with them. For numbers in several
// parts the smallest products come first.
//
// The sum of a block is made in registers and then added to the previous sum, as in
// products.simd.h.
#include "kernels/amx/tile_packing.simd.h"
#include "kernels/kernel_table.h"

namespace rapt::RAPT_ISA {
namespace {

// Tile registers: 0 to 3 hold C (2 i + k: A's tile i times B's tile k), 4 and 5 A, 6 and 7 B.
RAPT_INLINE void clear_sums() {
  tile_zero<0>();
  tile_zero<1>();
  tile_zero<2>();
  tile_zero<3>();
}

// What happens to a C before the first product is added to it: nothing, or it is cleared, or it is
// stored to [32][32] f32 and then cleared. Four stores in a row would block a core for 15 cycles
// each; between products they do not.
struct Keep {
  template <int C>
  RAPT_INLINE void open() const {}
};
class StoreAndClear {
 public:
  StoreAndClear() = default;  // there is nothing to store
  RAPT_INLINE explicit StoreAndClear(float* sums) : to(reinterpret_cast<char*>(sums)) {}
  template <int C>
  RAPT_INLINE void open() const {
    if (to) store<C>();
    tile_zero<C>();
  }
  RAPT_INLINE void store_all() const {
    store<0>();
    store<1>();
    store<2>();
    store<3>();
  }

  char* to = nullptr;

 private:
  template <int C>
  RAPT_INLINE void store() const {
    tile_store<C>(to + C / 2 * 16 * kSumRow + C % 2 * kTileRow, kSumRow);
  }
  static constexpr int64_t kSumRow = kStep * int64_t{sizeof(float)};
};

// Loads a tile of A through the L1 cache, or past it if it is not read again soon.
enum class Load : uint8_t { near, past };
template <int T, Load kLoad>
RAPT_INLINE void load_tile(const char* rows) {
  if constexpr (kLoad == Load::past)
    tile_stream<T>(rows, kTileRow);
  else
    tile_load<T>(rows, kTileRow);
}

// C += A B over a step of 32, for numbers with this many parts.
template <int PartsA, int PartsB, int Ranks, Load kLoad, class Before>
RAPT_INLINE void add_step(const char* a, const char* b, const Before& before) {
  UNROLL_FOR (int part_a = PartsA - 1; part_a >= 0; --part_a) {
    const int last = PartsB < Ranks - part_a ? PartsB - 1 : Ranks - 1 - part_a;
    load_tile<4, kLoad>(a + part_a * kPanel);
    UNROLL_FOR (int part_b = last; part_b >= 0; --part_b) {
      const bool first = part_a == PartsA - 1 && part_b == last;
      tile_load<6>(b + part_b * kPanel, kTileRow);
      if (first) before.template open<0>();
      tile_multiply<0, 4, 6>();
      tile_load<7>(b + part_b * kPanel + kTile, kTileRow);
      if (first) before.template open<1>();
      tile_multiply<1, 4, 7>();
      if (part_b == last) load_tile<5, kLoad>(a + part_a * kPanel + kTile);
      if (first) before.template open<2>();
      tile_multiply<2, 5, 6>();
      if (first) before.template open<3>();
      tile_multiply<3, 5, 7>();
    }
  }
}
// By rows alone; by rows and weights; by weights and rows.
template <class S, Load kLoad, class Before>
RAPT_INLINE void add_row_products(const char* a, const char* b, const Before& before) {
  add_step<S::kParts, S::kParts, S::kRanks, kLoad>(a, b, before);
}
template <class S, Load kLoad, class Before>
RAPT_INLINE void add_weighted_rows(const char* a, const char* b, const Before& before) {
  add_step<S::kParts, S::kWeightParts, S::kRanks, kLoad>(a, b, before);
}
template <class S, class Before>
RAPT_INLINE void add_weights_by_rows(const char* a, const char* b, const Before& before) {
  add_step<S::kWeightParts, S::kParts, S::kRanks, Load::near>(a, b, before);
}

// Reads the scores of a panel of keys and queries, finds their maximum and, if kScaled, multiplies
// both by the factor.
template <bool kScaled>
RAPT_INLINE void finish_scores(float* scores, int64_t rows, F factor, float* block_max) {
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
  for (; r + 1 < rows; r += 2) take(scores + r * kStep, even), take(scores + (r + 1) * kStep, odd);
  if (r < rows) take(scores + r * kStep, even);
  UNROLL_FOR (int x = 0; x < 2; ++x) store(block_max + 16 * x, max(even[x], odd[x]));
}

// Work between the steps of products, which overlaps with them; and work that must end before the
// nth panel of keys of a product is stored.
struct Nothing {
  RAPT_INLINE void step() const {}
  RAPT_INLINE void before_panel(int64_t /* nth */) const {}
};
// Work on the scores of a tile in pieces of two keys, spread evenly over the steps. Products may be
// stored over its scores.
template <class Work>
class DealtOut {
 public:
  DealtOut(Work& work, int64_t steps)
      : work_(work), share_(steps > 0 ? (work.pieces() << 16) / steps : 0) {}
  RAPT_INLINE void step() {
    due_ += share_;
    work_.advance(due_ >> 16);
  }
  RAPT_INLINE void before_panel(int64_t nth) { work_.advance((nth + 1) * (kStep / 2)); }

 private:
  Work& work_;
  const int64_t share_;  // of a step, in 2^-16 pieces
  int64_t due_ = 0;
};

// Dots of a panel of keys and the tile's queries, left in the registers. `before`: what happens to
// the sums in the registers first.
template <class S, Load kLoad, class Between>
RAPT_INLINE void add_dots(const char* rows, const char* columns, int64_t depth,
                          const StoreAndClear& before, Between& between) {
  add_row_products<S, kLoad>(rows, columns, before);
  between.step();
  for (int64_t s = 1; s < depth; ++s) {
    add_row_products<S, kLoad>(rows + s * kRowPanels<S>, columns + s * kRowPanels<S>, Keep{});
    between.step();
  }
}

// S^T of a tile and at least one key, multiplied by the factor if kScaled.
template <class S, bool kScaled, Load kLoad, class Between>
RAPT_INLINE void make_scores(const StageScores<float>& of, Between& between) {
  const int64_t depth = panels(of.head_dim);
  const auto* const columns = static_cast<const char*>(of.query_t);
  const auto* rows = static_cast<const char*>(of.key);
  const F factor = F::splat(of.factor);
  const F most = F::set(depth > 0 ? -__builtin_inf() : 0);
  for (int64_t x = 0; x < kStep; x += F::kLanes) store(of.block_max + x, most);
  if (depth == 0) {  // of d_weights: values may have no dimensions; no stage has such
    for (int64_t x = 0; x < of.keys * kStep; x += F::kLanes) store(of.scores + x, F::splat(0));
    return;
  }
  // A panel's scores are stored between the first products of the next panel and read back after
  // all products.
  StoreAndClear before;
  const auto finish = [&](int64_t j) {
    finish_scores<kScaled>(of.scores + j * kStep, of.keys - j < kStep ? of.keys - j : kStep, factor,
                           of.block_max);
  };
  for (int64_t j = 0; j < of.keys; j += kStep, rows += kStep * of.key_stride * kElement<S>) {
    add_dots<S, kLoad>(rows, columns, depth, before, between);
    if (before.to) finish(j - kStep);
    between.before_panel(j / kStep);
    before = StoreAndClear(of.scores + j * kStep);
  }
  before.store_all();
  finish((of.keys - 1) & -kStep);
}

template <class S>
RAPT_NOINLINE void tile_scores(const void* query_t, const void* key, int64_t key_stride,
                               int64_t keys, int64_t head_dim, float factor, float* scores,
                               float* block_max) noexcept {
  Nothing nothing;
  make_scores<S, true, Load::near>(
      {query_t, key, key_stride, keys, head_dim, factor, false, scores, block_max}, nothing);
}

// A sum of products with weights.
template <class S>
RAPT_INLINE F load_sum(const float* sum) {
  return S::kWeightScale == 1 ? F::load(sum) : mul(F::load(sum), F::splat(1 / S::kWeightScale));
}

template <class S>
RAPT_INLINE void finish_output(const float* sums /* [32][32] */, int64_t rows, const float* rescale,
                               float* output_t) {
  UNROLL_FOR (int x = 0; x < 2; ++x)
    for (int64_t r = 0; r < rows; ++r) {
      float* const at = output_t + r * kStep + 16 * x;
      const F sum = load_sum<S>(sums + r * kStep + 16 * x), old = F::load(at);
      store(at, rescale ? fma(F::load(rescale + 16 * x), old, sum) : add(old, sum));
    }
}

// O^T of a tile.
template <class S, Load kLoad, class Between>
RAPT_INLINE void make_output(const StageOutput<float>& of, Between& between) {
  const int64_t steps = panels(of.keys);
  const int64_t value_step = kStep * of.value_stride * kElement<S>;
  const auto* const columns = static_cast<const char*>(of.rounded);
  const auto* row = static_cast<const char*>(of.value);
  alignas(64) float sums[kStep * kStep];
  StoreAndClear before;
  const auto finish = [&](int64_t d) {
    finish_output<S>(sums, of.value_dim - d < kStep ? of.value_dim - d : kStep, of.rescale,
                     of.output_t + d * kStep);
  };
  for (int64_t d = 0; d < of.value_dim; d += kStep, row += kRowPanels<S>) {
    add_weighted_rows<S, kLoad>(row, columns, before);
    between.step();
    for (int64_t s = 1; s < steps; ++s) {
      add_weighted_rows<S, kLoad>(row + s * value_step, columns + s * kWeightPanels<S>, Keep{});
      between.step();
    }
    if (before.to) finish(d - kStep);
    before = StoreAndClear(sums);
  }
  if (!before.to) return;  // values may have no dimensions
  before.store_all();
  finish((of.value_dim - 1) & -kStep);
}

template <class S>
RAPT_NOINLINE void tile_output(const void* weights, const void* value, int64_t value_stride,
                               int64_t keys, int64_t value_dim, const float* rescale,
                               float* output_t) noexcept {
  Nothing nothing;
  make_output<S, Load::near>({weights, value, value_stride, keys, value_dim, rescale, output_t},
                             nothing);
}

// Adds sums [32][32] to those rows and columns of a gradient that exist.
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

// The panels of a span for one panel of keys and one of dims.
template <class S>
struct SpanPanels {
  const char *weights, *rows;
  int64_t rows_step, count;
  SpanPanels(const GradientSpan<float>& span, int64_t keys_before, int64_t dims_before)
      : weights(static_cast<const char*>(span.weights) + keys_before / kStep * kWeightPanels<S>),
        rows(static_cast<const char*>(span.rows) + dims_before / kStep * kRowPanels<S>),
        rows_step(kStep * span.row_stride * kElement<S>),
        count(panels(span.count)) {}
};

// Some panels of the gradient of a block of keys.
template <class S, class Between>
RAPT_INLINE void make_key_sums(const StageKeySums<float>& of, Between& between) {
  alignas(64) float sums[kStep * kStep];
  StoreAndClear before;
  const int64_t across = panels(of.dims);
  const auto finish = [&](int64_t panel) {
    const int64_t j = panel / across * kStep, d = panel % across * kStep;
    add_to_rows<S>(sums, of.keys - j < kStep ? of.keys - j : kStep, of.dims - d,
                   of.gradient + j * of.stride + d, of.stride);
  };
  for (int64_t panel = of.begin; panel < of.end; ++panel) {
    const int64_t j = panel / across * kStep, d = panel % across * kStep;
    for (int64_t s = 0; s < of.span_count; ++s) {
      const SpanPanels<S> at(of.spans[s], j, d);
      for (int64_t i = 0; i < at.count; ++i) {
        const char* const weights = at.weights + i * kWeightPanels<S>;
        const char* const rows = at.rows + i * at.rows_step;
        if (s + i == 0)
          add_weights_by_rows<S>(weights, rows, before);
        else
          add_weights_by_rows<S>(weights, rows, Keep{});
        between.step();
      }
    }
    if (before.to) finish(panel - 1);
    before = StoreAndClear(sums);
  }
  if (!before.to) return;
  before.store_all();
  finish(of.end - 1);
}

template <class S>
RAPT_NOINLINE void tile_add_to_keys(const GradientSpan<float>* spans, int64_t span_count,
                                    int64_t keys, int64_t dims, float* gradient,
                                    int64_t stride) noexcept {
  Nothing nothing;
  make_key_sums<S>(
      {spans, span_count, keys, dims, gradient, stride, 0, panels(keys) * panels(dims)}, nothing);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
