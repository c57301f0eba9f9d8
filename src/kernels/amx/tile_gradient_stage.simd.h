#pragma once
// A stage of the backward pipeline (kernel_table.h): products around the vector work of a tile, as
// in tile_stage.simd.h.
//
//   before   dQ^T += K^T dS^T; of whole blocks dV += P^T dO, dK += dS^T Q     tile products
//   now      P^T = 2^(c S^T - lse), dS^T = P^T (dP^T - delta)                 vectors
//   next     S^T = K Q^T, dP^T = V dO^T, panel by panel                       tile products
//
// A piece of the vector work has two keys x 32 queries. It reads the results of the products and
// writes operands of the sums without storing P or dS as f32: P and dS as A of the sums over
// queries (a row per key), dS as B of the sum over keys (a row per two keys).
#include "kernels/amx/tile_stage.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// N: the normaliser, whose hooks do the arithmetic.
template <class S, class N>
class PipelinedGradientTile {
 public:
  explicit PipelinedGradientTile(const StageGradients<float>* of) {
    if (!of) return;
    of_ = *of;
    padded_ = panels(of_.keys) * kStep;
    UNROLL_FOR (int t = 0; t < 2; ++t)
      columns_[t] = N::template open_gradient<true>(F::load(of_.statistic + 16 * t),
                                                    F::load(of_.delta + 16 * t));
  }
  int64_t pieces() const { return padded_ / 2; }
  // Runs the pieces up to the `last`-th, two keys at a time.
  RAPT_INLINE void advance(int64_t last) {
    const int64_t end = 2 * last < padded_ ? 2 * last : padded_;
    if (end <= key_) return;
    (of_.bits || end > of_.keys) ? go_back_until<true>(end) : go_back_until<false>(end);
  }
  void finish() { advance(pieces()); }

 private:
  using Column = typename N::template GradientColumn<F>;
  using Gradient = typename N::template Gradient<F>;

  // Keeps everything that the pieces need in registers. kSome: are there masked pairs? Not inlined,
  // because its code would be repeated beside each of five products.
  template <bool kSome>
  RAPT_NOINLINE void go_back_until(int64_t end) noexcept {
    const Column columns[2] = {columns_[0], columns_[1]};
    const F factor = F::splat(of_.factor);
    auto* const weights = static_cast<char*>(of_.weights);
    auto* const d_scores = static_cast<char*>(of_.d_scores);
    auto* const of_query = static_cast<char*>(of_.d_scores_of_query);
    int64_t key = key_;
    const float* score = of_.scores + key * kStep;
    const float* d_weight = of_.d_weights + key * kStep;
    for (; key < end; key += 2) {
      Gradient of_key[2][2];  // [key][half of the queries]
      UNROLL_FOR (int k = 0; k < 2; ++k) {
        const uint64_t there = kSome ? allowed(key + k) : 0;
        UNROLL_FOR (int t = 0; t < 2; ++t) {
          Gradient& g = of_key[k][t];
          g = N::template go_back<true>(mul(F::load(score + 16 * t), factor),
                                        F::load(d_weight + 16 * t), columns[t]);
          if (!kSome) continue;
          g.weight = select(mask_of(there >> (16 * t)), g.weight, F::splat(0));
          g.d_score = select(mask_of(there >> (16 * t)), g.d_score, F::splat(0));
        }
        score += kStep, d_weight += kStep;
      }
      if (weights)
        UNROLL_FOR (int k = 0; k < 2; ++k)
          store_pair<S>(of_key[k][0].weight, of_key[k][1].weight,
                        weights + key_row<S>(key) + k * kTileRow);
      const WeightParts<S> d[2][2] = {{of_key[0][0].d_score, of_key[0][1].d_score},
                                      {of_key[1][0].d_score, of_key[1][1].d_score}};
      if (d_scores)
        UNROLL_FOR (int k = 0; k < 2; ++k)
          store_pair<S>(d[k][0], d[k][1], d_scores + key_row<S>(key) + k * kTileRow);
      if (of_query)
        UNROLL_FOR (int t = 0; t < 2; ++t)
          store_pair<S>(d[0][t], d[1][t], of_query + pair_row<S>(key) + t * kTile);
    }
    key_ = key;
  }
  RAPT_INLINE uint64_t allowed(int64_t key) const {
    if (key >= of_.keys) return 0;
    return of_.bits ? of_.bits[key] : ~uint64_t{0};
  }

  StageGradients<float> of_ = {};
  int64_t padded_ = 0;  // keys, as panels have them
  int64_t key_ = 0;     // the next one
  Column columns_[kStep / F::kLanes];
};

// Both products of the next tile, alternating by panels of keys, so that they overwrite the memory
// of the current tile only after its pieces have read it.
template <class S, class Between>
RAPT_INLINE void make_both_dots(const StageProducts<float>& of, Between& between) {
  StoreAndClear before;
  const auto add = [&](const StageDots<float>& dots, int64_t j) {
    add_dots<S, Load::past>(static_cast<const char*>(dots.rows) + j * dots.row_stride * kElement<S>,
                            static_cast<const char*>(dots.columns), panels(dots.dims), before,
                            between);
    between.before_panel(j / kStep);
    before = StoreAndClear(dots.dots + j * kStep);
  };
  for (int64_t j = 0; j < of.keys; j += kStep) add(of.scores, j), add(of.d_weights, j);
  before.store_all();
}

inline int64_t steps_of(const StageProducts<float>& of) {
  return panels(of.keys) * (panels(of.scores.dims) + panels(of.d_weights.dims));
}
inline int64_t steps_of(const StageOutput<float>& of) {
  return of.output_t ? panels(of.keys) * panels(of.value_dim) : 0;
}
inline int64_t steps_of(const StageKeySums<float>& of) {
  int64_t steps = 0;
  for (int64_t s = 0; s < of.span_count; ++s) steps += panels(of.spans[s].count);
  return steps * (of.end - of.begin);
}

template <class S, class N>
void gradient_stage(const StageProducts<float>* next, const StageGradients<float>* now,
                    const StageSums<float>* before) noexcept {
  PipelinedGradientTile<S, N> gradients(now);
  int64_t steps = 0;
  if (before)
    steps += steps_of(before->d_query) + steps_of(before->d_value) + steps_of(before->d_key);
  if (next) steps += steps_of(*next);
  DealtOut between(gradients, steps);
  if (before) {
    if (before->d_query.output_t) make_output<S, Load::past>(before->d_query, between);
    make_key_sums<S>(before->d_value, between);
    make_key_sums<S>(before->d_key, between);
  }
  if (next) make_both_dots<S>(*next, between);
  gradients.finish();
}

// The stages of a catalogue; null for normalisers without column hooks for gradients.
template <class S, class N>
constexpr GradientStage<float> gradient_stage_of() {
  if constexpr (requires { typename N::template GradientColumn<F>; })
    return gradient_stage<S, N>;
  else
    return nullptr;
}
template <class S, class Normalizers>
struct GradientStageList;
template <class S, class... N>
struct GradientStageList<S, TypeList<N...>> {
  static constexpr GradientStage<float> all[] = {gradient_stage_of<S, N>()..., nullptr};
};

}  // namespace
}  // namespace rapt::RAPT_ISA
