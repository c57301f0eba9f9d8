#pragma once
// A stage of the pipeline (kernel_table.h): the products of two score tiles with the weights of a
// third between them, so that the tile unit and the vector units work at the same time.
//
//   before   O^T += V^T P^T          tile products
//   now      P^T = softmax(S^T)      vectors: two keys x 32 queries at a time, stored as B
//   next     S^T = K Q^T             tile products, to where S^T of `now` has been
//
// The vector work is spread evenly over the steps of the products. A core looks about 500
// instructions ahead, which is a few steps, and finds both kinds of work there. Scores come last
// and are made in the order of the weights, so that both tiles share their memory: for bf16 with
// 128 keys and heads of 64, S^T, two P^T, Q^T and O^T are 44 of the 48 KiB of an L1, if keys and
// values bypass it.
#include "kernels/amx/tile_products.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Makes the weights of a tile of 32 queries, a piece at a time, between steps of products. N: the
// normaliser, whose hooks do the arithmetic.
template <class S, class N, bool kLog2Units>
class PipelinedWeights {
 public:
  RAPT_INLINE explicit PipelinedWeights(const StageWeights<float>* of)
      : tile_(of ? of->tile : nullptr), to_(of ? static_cast<char*>(of->rounded) : nullptr) {
    if (!tile_) return;
    keys_ = tile_->keys, padded_ = panels(keys_) * kStep;
    factor_ = F::splat(of->factor);
    UNROLL_FOR (int x = 0; x < 2; ++x) {
      const F most = F::load(tile_->block_max + 16 * x);
      columns_[x] = N::template open_column<kLog2Units>(
          *tile_, 16 * x, kLog2Units ? mul(most, factor_) : most, N::template kSlack<F>);
    }
  }
  RAPT_INLINE int64_t pieces() const { return padded_ / 2; }
  // Runs the pieces up to the `last`-th, two keys at a time.
  RAPT_INLINE void advance(int64_t last) {
    const int64_t end = 2 * last < padded_ ? 2 * last : padded_;
    if (end > key_) weigh_until(end);
  }
  RAPT_INLINE void finish() {
    advance(pieces());
    for (int x = 0; tile_ && x < 2; ++x) N::template close_column<F>(*tile_, 16 * x, columns_[x]);
  }

 private:
  using Column = typename N::template Column<F>;

  // Keeps everything that the pieces need in registers. Not inlined: the products around it have no
  // vectors in registers and call it from several places. A row with a NaN among its weights is NaN
  // through their sum, whatever the products return.
  RAPT_NOINLINE void weigh_until(int64_t end) noexcept {
    Column low = columns_[0], high = columns_[1];
    const F factor = factor_;
    int64_t key = key_;
    const float* at = tile_->scores + key * kStep;
    const int64_t whole = end < keys_ ? end : keys_ & -2;
    for (; key < whole; key += 2, at += 2 * kStep) {
      const F even_low = weigh(at, factor, low), odd_low = weigh(at + kStep, factor, low);
      const F even_high = weigh(at + 16, factor, high);
      const F odd_high = weigh(at + kStep + 16, factor, high);
      char* const row = row_of(key);
      store_pair<S, Nan::may_go>(even_low, odd_low, row);
      store_pair<S, Nan::may_go>(even_high, odd_high, row + kTile);
    }
    // An odd key is the last one; beyond it the weights are 0.
    const F zero = F::splat(0);
    for (; key < end; key += 2) {
      const bool there = key < keys_;
      char* const row = row_of(key);
      store_pair<S, Nan::may_go>(there ? weigh(at, factor, low) : zero, zero, row);
      store_pair<S, Nan::may_go>(there ? weigh(at + 16, factor, high) : zero, zero, row + kTile);
    }
    key_ = key;
    columns_[0] = low, columns_[1] = high;
  }
  RAPT_INLINE char* row_of(int64_t key) const { return to_ + pair_row<S>(key); }
  static RAPT_INLINE F weigh(const float* at, F factor, Column& column) {
    const F score = F::load(at);
    return N::template weigh<kLog2Units>(kLog2Units ? mul(score, factor) : score, column);
  }

  Tile<float>* tile_;
  char* to_;
  F factor_;
  int64_t keys_ = 0, padded_ = 0;  // padded: as panels have them
  int64_t key_ = 0;                // the next one
  Column columns_[kStep / F::kLanes];
};

template <class S, class N, bool kLog2Units>
RAPT_NOINLINE void run_stage(const StageScores<float>* next, const StageWeights<float>* now,
                             const StageOutput<float>* before) noexcept {
  PipelinedWeights<S, N, kLog2Units> weights(now);
  int64_t steps = 0;
  if (before) steps += panels(before->keys) * panels(before->value_dim);
  if (next) steps += panels(next->keys) * panels(next->head_dim);
  DealtOut between(weights, steps);
  if (before) make_output<S, Load::past>(*before, between);
  if (next) make_scores<S, !kLog2Units, Load::past>(*next, between);
  weights.finish();
}

template <class S, class N>
void stage(const StageScores<float>* next, const StageWeights<float>* now,
           const StageOutput<float>* before) noexcept {
  const bool log2_units = now ? now->tile->log2_units : next && next->log2_units;
  (log2_units ? run_stage<S, N, true> : run_stage<S, N, false>)(next, now, before);
}

// The stages of a catalogue; null for normalisers without column hooks.
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
