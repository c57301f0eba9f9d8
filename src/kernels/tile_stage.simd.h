#pragma once
// A stage of the pipeline (kernel_table.h): the products of two tiles with the weights of a third
// between them, so that the unit of the tiles and those of the vectors are at work at once.
//
//   next     S^T = K Q^T             tile products
//   now      P^T = softmax(S^T)      vectors: two keys x 32 queries at a time, stored as B
//   before   O^T += V^T P^T          tile products
//
// The vector work is dealt out evenly over the steps of the products. A core looks some 500
// instructions ahead, which is a few steps: it finds both kinds of work there, though each of them
// waits for itself.
#include "kernels/tile_products.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// The weights of a tile, a piece at a time. N: the normaliser, whose arithmetic this is.
template <class S, class N, bool kLog2Units>
class StagedWeights {
 public:
  RAPT_INLINE explicit StagedWeights(const StageWeights<float>* of)
      : tile_(of ? of->tile : nullptr), to_(of ? static_cast<char*>(of->rounded) : nullptr) {
    if (!tile_) return;
    keys_ = tile_->keys, queries_ = tile_->queries;
    padded_ = panels(keys_) * kStep;
    pieces_ = padded_ / 2 * (queries_ / kStep);
    factor_ = F::splat(of->factor);
    for (int64_t x = 0; x < queries_; x += F::kLanes) {
      const F most = F::load(tile_->block_max + x);
      columns_[x / F::kLanes] = N::template open_column<kLog2Units>(
          *tile_, x, kLog2Units ? mul(most, factor_) : most, N::template kSlack<F>);
    }
  }
  RAPT_INLINE int64_t pieces() const { return pieces_; }

  // Pieces up to the `last`-th: panel by panel, two keys after two keys.
  RAPT_INLINE void advance(int64_t last) {
    for (; done_ < last; ++done_) {
      const float* const at = tile_->scores + key_ * queries_ + kStep * panel_;
      char* const row = to_ + (key_ / kStep * (queries_ / kStep) + panel_) * kPart<S> +
                        key_ % kStep / 2 * kTileRow;
      UNROLL_FOR (int t = 0; t < 2; ++t) {
        auto& column = columns_[2 * panel_ + t];
        const F even = weigh(at + 16 * t, key_, column);
        const F odd = weigh(at + queries_ + 16 * t, key_ + 1, column);
        store_pair<S>(even, odd, row + t * kTile);
      }
      key_ += 2;
      if (key_ == padded_) key_ = 0, ++panel_;
    }
  }
  RAPT_INLINE void finish() {
    advance(pieces_);
    for (int64_t x = 0; tile_ && x < queries_; x += F::kLanes)
      N::template close_column<F>(*tile_, x, columns_[x / F::kLanes]);
  }

 private:
  // 0 beyond the last key.
  template <class Column>
  RAPT_INLINE F weigh(const float* at, int64_t key, Column& column) const {
    if (key >= keys_) return F::splat(0);
    const F score = F::load(at);
    return N::template weigh<kLog2Units>(kLog2Units ? mul(score, factor_) : score, column);
  }

  Tile<float>* tile_;
  char* to_;
  F factor_;
  int64_t keys_ = 0, queries_ = 0, padded_ = 0, pieces_ = 0;
  int64_t done_ = 0, key_ = 0, panel_ = 0;
  typename N::template Column<F> columns_[kMaxTileQueries / F::kLanes];
};

template <class S, class N, bool kLog2Units>
RAPT_NOINLINE void run_stage(const StageScores<float>* next, const StageWeights<float>* now,
                             const StageOutput<float>* before) noexcept {
  StagedWeights<S, N, kLog2Units> weights(now);
  int64_t steps = 0;
  if (next) steps += panels(next->keys) * (next->queries / kStep) * panels(next->head_dim);
  if (before) steps += panels(before->keys) * (before->queries / kStep) * panels(before->value_dim);
  // Pieces per step, in 2^-16.
  const int64_t share = steps > 0 ? (weights.pieces() << 16) / steps : 0;
  int64_t due = 0;
  const auto between = [&] {
    due += share;
    weights.advance(due >> 16);
  };
  if (next) make_scores<S, !kLog2Units>(*next, between);
  if (before) make_output<S>(*before, between);
  weights.finish();
}

template <class S, class N>
void stage(const StageScores<float>* next, const StageWeights<float>* now,
           const StageOutput<float>* before) noexcept {
  const bool log2_units = now ? now->tile->log2_units : next && next->log2_units;
  (log2_units ? run_stage<S, N, true> : run_stage<S, N, false>)(next, now, before);
}

// Those of a catalogue; null for what has no columns.
template <class S, class N>
constexpr Stage<float> stage_of() {
  if constexpr (requires { typename N::template Column<F>; })
    return stage<S, N>;
  else
    return nullptr;
}
template <class S, class Normalizers>
struct StageList;
template <class S, class... N>
struct StageList<S, TypeList<N...>> {
  static constexpr Stage<float> all[] = {stage_of<S, N>()..., nullptr};
};

}  // namespace
}  // namespace rapt::RAPT_ISA
