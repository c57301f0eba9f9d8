#pragma once
// A stage of the backward pass (kernel_table.h): the products of two tiles with the vector work of
// a third between them, as in tile_stage.simd.h.
//
//   next     S^T = K Q^T, dP^T = V dO^T                             tile products
//   now      P^T = 2^(c S^T - lse), dS^T = P^T (dP^T - delta)       vectors
//   before   dQ^T += K^T dS^T, dV += P^T dO, dK += dS^T Q           tile products
//
// A piece of the vector work is that of two keys x 32 queries, in registers all the way from what
// the products left in memory to the operands of the sums: P and dS as A of a sum over queries (a
// row per key), dS as B of that over keys (a row per two keys).
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
  // after two keys. Out of line: its code would stand beside each of five products.
  RAPT_NOINLINE void advance(int64_t last) noexcept {
    while (done_ < last) {
      const int64_t left = (kStep - in_panel_) / 2;
      const int64_t count = last - done_ < left ? last - done_ : left;
      const bool some = of_.bits || key_ + kStep > of_.keys;
      some ? make_pieces<true>(count) : make_pieces<false>(count);
      done_ += count;
      in_panel_ += 2 * count;
      if (in_panel_ == kStep) next_panel();
    }
  }
  void finish() { advance(pieces_); }

 private:
  using Column = typename N::template GradientColumn<F>;
  using Gradient = typename N::template Gradient<F>;

  void next_panel() {
    in_panel_ = 0;
    panel_ += kPart<S>;
    query_ += kStep;
    if (query_ == of_.queries) query_ = 0, key_ += kStep;
  }

  // Pieces of a panel, with all that they need in registers. kSome: are there pairs of which all is
  // 0?
  template <bool kSome>
  RAPT_INLINE void make_pieces(int64_t count) const {
    const Column columns[2] = {columns_[query_ / F::kLanes], columns_[query_ / F::kLanes + 1]};
    const F factor = F::splat(of_.factor);
    const int64_t step = of_.queries, query = query_, row = panel_ + in_panel_ * kTileRow;
    auto* weights = static_cast<char*>(of_.weights);
    auto* d_scores = static_cast<char*>(of_.d_scores);
    auto* of_query = static_cast<char*>(of_.d_scores_of_query);
    if (weights) weights += row;
    if (d_scores) d_scores += row;
    if (of_query) of_query += panel_ + in_panel_ / 2 * kTileRow;
    int64_t key = key_ + in_panel_;
    const float* score = of_.scores + key * step + query;
    const float* d_weight = of_.d_weights + key * step + query;
    for (const int64_t end = key + 2 * count; key < end; key += 2) {
      Gradient of_key[2][2];  // [key][half of the queries]
      UNROLL_FOR (int k = 0; k < 2; ++k) {
        const uint64_t there = kSome ? allowed(key + k) >> query : 0;
        UNROLL_FOR (int t = 0; t < 2; ++t) {
          Gradient& g = of_key[k][t];
          g = N::template go_back<true>(mul(F::load(score + 16 * t), factor),
                                        F::load(d_weight + 16 * t), columns[t]);
          if (!kSome) continue;
          g.weight = select(mask_of(there >> (16 * t)), g.weight, F::splat(0));
          g.d_score = select(mask_of(there >> (16 * t)), g.d_score, F::splat(0));
        }
        score += step, d_weight += step;
      }
      if (weights) {
        UNROLL_FOR (int k = 0; k < 2; ++k)
          store_pair<S>(of_key[k][0].weight, of_key[k][1].weight, weights + k * kTileRow);
        weights += 2 * kTileRow;
      }
      const WeightParts<S> d[2][2] = {{of_key[0][0].d_score, of_key[0][1].d_score},
                                      {of_key[1][0].d_score, of_key[1][1].d_score}};
      if (d_scores) {
        UNROLL_FOR (int k = 0; k < 2; ++k) store_pair<S>(d[k][0], d[k][1], d_scores + k * kTileRow);
        d_scores += 2 * kTileRow;
      }
      if (of_query) {
        UNROLL_FOR (int t = 0; t < 2; ++t) store_pair<S>(d[0][t], d[1][t], of_query + t * kTile);
        of_query += kTileRow;
      }
    }
  }
  RAPT_INLINE uint64_t allowed(int64_t key) const {
    if (key >= of_.keys) return 0;
    return of_.bits ? of_.bits[key] : ~uint64_t{0};
  }

  StageGradients<float> of_ = {};
  int64_t pieces_ = 0, done_ = 0;
  // Of the panel at work: its first key and query, bytes before it, keys that are done.
  int64_t key_ = 0, query_ = 0, panel_ = 0, in_panel_ = 0;
  Column columns_[kMaxTileQueries / F::kLanes];
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
