#pragma once
// A stage of the backward pass (kernel_table.h): the products of two tiles with the vector work of
// a third between them, as in tile_stage.simd.h.
//
//   next     S^T = K Q^T, dP^T = V dO^T                             tile products
//   now      P^T = 2^(c S^T - lse), dS^T = P^T (dP^T - delta)       vectors
//   before   dQ^T += K^T dS^T, dV += P^T dO, dK += dS^T Q           tile products
//
// A piece of the vector work is that of two keys x 32 queries, from what the products left in
// memory to the operands of the sums, once more in registers alone: P and dS as A of a sum over
// queries (a row per key), dS as B of that over keys (a row per two keys).
#include "kernels/tile_stage.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// N: the normaliser, whose arithmetic this is.
template <class S, class N>
class StagedGradientTile {
 public:
  explicit StagedGradientTile(const StageGradients<float>* of) {
    if (!of) return;
    of_ = *of;
    pieces_ = panels(of_.keys) * (of_.queries / kStep) * (kStep / 2);
    for (int64_t x = 0; x < of_.queries; x += F::kLanes)
      columns_[x / F::kLanes] =
          N::template open_gradient<true>(F::load(of_.statistic + x), F::load(of_.delta + x));
  }
  int64_t pieces() const { return pieces_; }

  // Pieces up to the `last`-th: panel by panel, as they follow one another in memory, two keys
  // after two keys. Called, because its code would stand beside each of five products.
  RAPT_NOINLINE void advance(int64_t last) {
    const F factor = F::splat(of_.factor);
    for (; done_ < last; ++done_) {
      const bool some = of_.bits || key_ + 2 > of_.keys;
      some ? make_piece<true>(factor) : make_piece<false>(factor);
      key_ += 2;
      if (key_ % kStep != 0) continue;
      panel_ += kPart<S>;
      query_ += kStep;
      if (query_ < of_.queries)
        key_ -= kStep;
      else
        query_ = 0;
    }
  }
  void finish() { advance(pieces_); }

 private:
  using Gradient = typename N::template Gradient<F>;

  // kSome: are there pairs of which all is 0?
  template <bool kSome>
  RAPT_INLINE void make_piece(F factor) const {
    Gradient of_key[2][2];  // [key][half of the queries]
    UNROLL_FOR (int k = 0; k < 2; ++k)
      UNROLL_FOR (int t = 0; t < 2; ++t) {
        const int64_t first = query_ + 16 * t, at = (key_ + k) * of_.queries + first;
        Gradient& g = of_key[k][t];
        g = N::template go_back<true>(mul(F::load(of_.scores + at), factor),
                                      F::load(of_.d_weights + at), columns_[first / F::kLanes]);
        if (!kSome) continue;
        const M there = mask_of(allowed(key_ + k) >> first);
        g.weight = select(there, g.weight, F::splat(0));
        g.d_score = select(there, g.d_score, F::splat(0));
      }
    const int64_t key = key_ & (kStep - 1), row = panel_ + key * kTileRow;
    UNROLL_FOR (int k = 0; k < 2; ++k) {
      const Gradient &low = of_key[k][0], &high = of_key[k][1];
      if (of_.weights) store_pair<S>(low.weight, high.weight, to(of_.weights, row + k * kTileRow));
      if (of_.d_scores)
        store_pair<S>(low.d_score, high.d_score, to(of_.d_scores, row + k * kTileRow));
    }
    if (!of_.d_scores_of_query) return;
    UNROLL_FOR (int t = 0; t < 2; ++t)
      store_pair<S>(of_key[0][t].d_score, of_key[1][t].d_score,
                    to(of_.d_scores_of_query, panel_ + t * kTile + key * (kTileRow / 2)));
  }
  RAPT_INLINE uint64_t allowed(int64_t key) const {
    if (key >= of_.keys) return 0;
    return of_.bits ? of_.bits[key] : ~uint64_t{0};
  }
  static RAPT_INLINE char* to(void* rounded, int64_t at) {
    return static_cast<char*>(rounded) + at;
  }

  StageGradients<float> of_ = {};
  int64_t pieces_ = 0, done_ = 0;
  int64_t key_ = 0, query_ = 0, panel_ = 0;  // of the next piece; the panel in bytes
  typename N::template GradientColumn<F> columns_[kMaxTileQueries / F::kLanes];
};

inline int64_t steps_of(const StageDots<float>& of) {
  return panels(of.keys) * (of.queries / kStep) * panels(of.dims);
}
inline int64_t steps_of(const StageOutput<float>& of) {
  return of.output_t ? panels(of.keys) * (of.queries / kStep) * panels(of.value_dim) : 0;
}
inline int64_t steps_of(const StageKeySum<float>& of) {
  return of.gradient ? panels(of.keys) * panels(of.span.count) * panels(of.dims) : 0;
}

template <class S, class N>
void gradient_stage(const StageProducts<float>* next, const StageGradients<float>* now,
                    const StageSums<float>* before) noexcept {
  StagedGradientTile<S, N> gradients(now);
  int64_t steps = 0;
  if (next) steps += steps_of(next->scores) + steps_of(next->d_weights);
  if (before)
    steps += steps_of(before->d_query) + steps_of(before->d_value) + steps_of(before->d_key);
  deal_out(gradients, steps, [&](const auto& between) {
    const auto nobody = [](int64_t, int64_t) {};
    if (next) {
      make_dots<S>(next->scores, between, nobody);
      make_dots<S>(next->d_weights, between, nobody);
    }
    if (!before) return;
    if (before->d_query.output_t) make_output<S>(before->d_query, between);
    const StageKeySum<float>* const sums[] = {&before->d_value, &before->d_key};
    for (const StageKeySum<float>* sum : sums)
      if (sum->gradient)
        make_key_sums<S>(&sum->span, 1, sum->keys, sum->dims, sum->gradient, sum->stride, between);
  });
}

// Those of a catalogue; null for what has no columns of gradients.
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
