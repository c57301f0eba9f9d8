#pragma once
// Sums over windows of rows, channel by channel: depthwise convolutions and the gradients of their
// weights. Channels fill the lanes, kDepthwiseChannels of them to a strip.
#include "kernels/vector/rows.simd.h"
#include "nn/kernels/sequence_kernels.h"

namespace rapt::RAPT_ISA {
namespace {

// strip [count][kDepthwiseChannels] = element (j, c) at j * row_step + c * channel_step for the
// `channels` that exist, and 0 beyond.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void pack_strip(const void* rows, int64_t row_step, int64_t channel_step,
                              int64_t count, int64_t channels, E* strip) noexcept {
  using Stored = typename S::Stored;
  const auto* row = static_cast<const Stored*>(rows);
  for (int64_t j = 0; j < count; ++j, row += row_step, strip += nn::kDepthwiseChannels)
    for (int64_t c = 0; c < nn::kDepthwiseChannels; c += V::kLanes) {
      const int64_t n = channels - c;
      if (n >= V::kLanes && channel_step == 1) {
        store(strip + c, S::load(row + c));
      } else {
        Stored lanes[V::kLanes] = {};
        for (int64_t i = 0; i < smaller(n, V::kLanes); ++i) lanes[i] = row[(c + i) * channel_step];
        store(strip + c, S::load(lanes));
      }
    }
}

// Sums of a register tile: each takes one load and one FMA per term. Few sums are made for several
// vectors of channels at once, because so many chains hide the latency of an FMA.
constexpr int kWindowSums = 12;
template <class V, int Sums>
constexpr int kChannelVectors = static_cast<int>(smaller(Sums <= 3   ? 4
                                                         : Sums <= 6 ? 2
                                                                     : 1,
                                                         nn::kDepthwiseChannels / V::kLanes));

// `Sums` sums in `Vectors` vectors of channels. Unit: out_step is 1, and its multiples are
// constants.
template <class V, int Sums, int Vectors, bool Unit, class E = typename V::Element>
RAPT_INLINE void window_sums(const nn::WindowSums<E>& w, int64_t first, int64_t channel) {
  constexpr int64_t kStrip = nn::kDepthwiseChannels;
  const int64_t out_step = (Unit ? 1 : w.out_step) * kStrip, term_step = w.term_step * kStrip;
  const E* row = w.window + first * out_step + channel;
  const E* factor = w.factors + channel;
  V acc[Vectors][Sums];
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    const V start = w.bias ? V::load(w.bias + channel + x * V::kLanes) : V::splat(0);
    UNROLL_FOR (int s = 0; s < Sums; ++s) acc[x][s] = start;
  }
  for (int64_t t = 0; t < w.terms; ++t, row += term_step, factor += kStrip)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      const V f = V::load(factor + x * V::kLanes);
      UNROLL_FOR (int s = 0; s < Sums; ++s)
        acc[x][s] = fma(V::load(row + s * out_step + x * V::kLanes), f, acc[x][s]);
    }
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    const int64_t n = w.channels - channel - x * V::kLanes;
    E* to = w.out + first * w.out_stride + channel + x * V::kLanes;
    UNROLL_FOR (int s = 0; s < Sums; ++s, to += w.out_stride) {
      if (n >= V::kLanes)
        store(to, w.add ? add(V::load(to), acc[x][s]) : acc[x][s]);
      else if (n > 0)
        store_first(to, w.add ? add(V::load_first(to, n), acc[x][s]) : acc[x][s], n);
    }
  }
}

template <class V, int Sums, bool Unit, class E = typename V::Element>
RAPT_NOINLINE void all_channels(const nn::WindowSums<E>& w, int64_t first) noexcept {
  constexpr int kVectors = kChannelVectors<V, Sums>;
  for (int64_t c = 0; c < w.channels; c += kVectors * V::kLanes)
    window_sums<V, Sums, kVectors, Unit>(w, first, c);
}

// The last sums, of which there are `count`, fewer than `Sums`.
template <class V, int Sums, bool Unit, class E = typename V::Element>
RAPT_INLINE void last_window_sums(const nn::WindowSums<E>& w, int64_t first, int64_t count) {
  if constexpr (Sums > 1) {
    if (count == Sums - 1)
      all_channels<V, Sums - 1, Unit>(w, first);
    else
      last_window_sums<V, Sums - 1, Unit>(w, first, count);
  }
}

template <class V, bool Unit, class E = typename V::Element>
RAPT_INLINE void all_window_sums(const nn::WindowSums<E>& w) {
  constexpr int kSums = Unit ? kWindowSums : 4;  // other steps need a register for each address
  int64_t i = 0;
  for (; i + kSums <= w.outs; i += kSums) all_channels<V, kSums, Unit>(w, i);
  last_window_sums<V, kSums, Unit>(w, i, w.outs - i);
}

template <class V, class E = typename V::Element>
void add_windows(const nn::WindowSums<E>& w) noexcept {
  if (w.out_step == 1)
    all_window_sums<V, true>(w);
  else
    all_window_sums<V, false>(w);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
