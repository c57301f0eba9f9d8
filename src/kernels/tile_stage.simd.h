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

  // Pieces up to the `last`-th: panel by panel, two keys after two keys. Out of line: the products
  // around it have no vectors in registers, and call it from several places.
  RAPT_NOINLINE void advance(int64_t last) noexcept {
    while (done_ < last) {
      const int64_t left = (padded_ - key_) / 2;
      const int64_t count = last - done_ < left ? last - done_ : left;
      weigh_panel(count);
      done_ += count;
      if (key_ == padded_) key_ = 0, ++panel_;
    }
  }
  RAPT_INLINE void finish() {
    advance(pieces_);
    for (int64_t x = 0; tile_ && x < queries_; x += F::kLanes)
      N::template close_column<F>(*tile_, x, columns_[x / F::kLanes]);
  }

 private:
  using Column = typename N::template Column<F>;
  static constexpr int64_t kInPanel = kStep - 1;

  // Pieces of a panel, with all that they need in registers.
  RAPT_INLINE void weigh_panel(int64_t count) {
    Column low = columns_[2 * panel_], high = columns_[2 * panel_ + 1];
    const int64_t row_step = queries_, panel_step = queries_ / kStep * kPart<S>;
    const F factor = factor_;
    int64_t key = key_;
    const float* at = tile_->scores + key * row_step + kStep * panel_;
    char* row =
        to_ + key / kStep * panel_step + panel_ * kPart<S> + (key & kInPanel) * kTileRow / 2;
    const int64_t end = key + 2 * count, whole = end < keys_ ? end : keys_ & -2;
    for (; key < whole; at += 2 * row_step) {
      const F even_low = weigh(at, factor, low), odd_low = weigh(at + row_step, factor, low);
      const F even_high = weigh(at + 16, factor, high);
      const F odd_high = weigh(at + row_step + 16, factor, high);
      store_pair<S>(even_low, odd_low, row);
      store_pair<S>(even_high, odd_high, row + kTile);
      key += 2;
      row += key & kInPanel ? kTileRow : panel_step - 15 * kTileRow;
    }
    // An odd key is the last one; beyond it the weights are 0.
    const F zero = F::splat(0);
    for (; key < end; key += 2, row += kTileRow) {
      const bool there = key < keys_;
      store_pair<S>(there ? weigh(at, factor, low) : zero, zero, row);
      store_pair<S>(there ? weigh(at + 16, factor, high) : zero, zero, row + kTile);
    }
    key_ = key;
    columns_[2 * panel_] = low, columns_[2 * panel_ + 1] = high;
  }
  static RAPT_INLINE F weigh(const float* at, F factor, Column& column) {
    const F score = F::load(at);
    return N::template weigh<kLog2Units>(kLog2Units ? mul(score, factor) : score, column);
  }

  Tile<float>* tile_;
  char* to_;
  F factor_;
  int64_t keys_ = 0, queries_ = 0, padded_ = 0, pieces_ = 0;
  int64_t done_ = 0, key_ = 0, panel_ = 0;
  Column columns_[kMaxTileQueries / F::kLanes];
};

template <class S, class N, bool kLog2Units>
RAPT_NOINLINE void run_stage(const StageScores<float>* next, const StageWeights<float>* now,
                             const StageOutput<float>* before) noexcept {
  StagedWeights<S, N, kLog2Units> weights(now);
  int64_t steps = 0;
  if (next) steps += panels(next->keys) * (next->queries / kStep) * panels(next->head_dim);
  if (before) steps += panels(before->keys) * (before->queries / kStep) * panels(before->value_dim);
  deal_out(weights, steps, [&](const auto& between) {
    if (next) make_scores<S, !kLog2Units>(*next, between);
    if (before) make_output<S>(*before, between);
  });
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
