// Depthwise convolutions: strips of channels by blocks of rows. A task copies the rows that its
// block reads into a window, which stands in an L1, with zeros beside the sequence.
#include <algorithm>
#include <cstring>

#include "nn/convolution/conv1d_call.h"
#include "nn/dense.h"
#include "nn/kernels/layer_kernels.h"
#include "threads/task_run.h"
#include "threads/workers.h"

namespace rapt::nn {
namespace {

constexpr int64_t kStrip = kDepthwiseChannels;

// Rows of y of a block. Of the longer blocks less is read twice; 128 rows and a kernel of 31 make a
// window of 20 KiB in f32.
constexpr int64_t kBlockRows = 128;

// Parts of the rows whose weight gradients are summed apart, so that several threads can work on
// few channels.
constexpr int64_t kGradientParts = 16;

// How the work is cut.
struct DepthwiseCut {
  int64_t strips, blocks;  // of a sequence
  int64_t window_rows;     // of the longest window
  int workers;
  bool to_executor;
};

DepthwiseCut depthwise_cut(const ConvSizes& s, const ConvTaps& taps, const Context& context) {
  const double work = 2.0 * static_cast<double>(s.batch * taps.rows) * static_cast<double>(s.out) *
                      static_cast<double>(taps.taps);
  const Workers workers(work, context);
  DepthwiseCut c;
  c.strips = (s.out + kStrip - 1) / kStrip;
  c.blocks = (taps.rows + kBlockRows - 1) / kBlockRows;
  c.window_rows = std::max<int64_t>(std::min(kBlockRows, taps.rows) - 1, 0) * taps.step +
                  (taps.taps - 1) * taps.dilation + 1;
  c.to_executor = workers.to_executor();
  c.workers = workers.of_tasks(s.batch * c.strips * c.blocks);
  return c;
}

// A block of rows of a sequence in a strip of channels.
struct ConvBlock {
  int64_t batch, first_row, rows, first_channel, channels;
};

template <class E>
class Strips {
 public:
  Strips(const ConvSizes& sizes, const ConvTaps& taps, const DepthwiseCut& cut) noexcept
      : sizes_(sizes), taps_(taps), cut_(cut), type_(static_cast<int>(sizes.dtype)) {}

  int64_t channels_of(int64_t strip) const noexcept {
    return std::min(kStrip, sizes_.out - strip * kStrip);
  }
  ConvBlock block(int64_t strip, int64_t unit) const noexcept {
    const int64_t first = unit % cut_.blocks * kBlockRows;
    return {.batch = unit / cut_.blocks,
            .first_row = first,
            .rows = std::min(kBlockRows, taps_.rows - first),
            .first_channel = strip * kStrip,
            .channels = channels_of(strip)};
  }

  // The address of a row of [batch, rows, channels].
  std::byte* row_of(const TensorView& all, const ConvBlock& b, int64_t row) const noexcept {
    const int64_t at = (b.batch * all.shape[1] + row) * sizes_.out + b.first_channel;
    return static_cast<std::byte*>(all.data) + at * size_of(sizes_.dtype);
  }

  void pack(const std::byte* rows, int64_t count, int64_t channels, E* strip) const noexcept {
    layer_kernels<E>().sequences.pack_strip[type_](rows, sizes_.out, 1, count, channels, strip);
  }

  // Copies the rows of the source that a block reads.
  void fill_window(const TensorView& source, const ConvBlock& b, E* window) const noexcept {
    const int64_t count = (b.rows - 1) * taps_.step + (taps_.taps - 1) * taps_.dilation + 1;
    const int64_t first = b.first_row * taps_.step - taps_.left;  // p of the first row
    const int64_t end = std::min(first + count, (taps_.source_rows - 1) * taps_.spread + 1);
    int64_t from = std::max<int64_t>(first, 0);
    if (from >= end) {
      std::fill_n(window, count * kStrip, E(0));
      return;
    }
    std::fill_n(window, (from - first) * kStrip, E(0));
    if (taps_.spread == 1) {
      pack(row_of(source, b, from), end - from, b.channels, window + (from - first) * kStrip);
    } else {
      std::fill_n(window + (from - first) * kStrip, (end - from) * kStrip, E(0));
      for (from = (from + taps_.spread - 1) / taps_.spread; from * taps_.spread < end; ++from)
        pack(row_of(source, b, from), 1, b.channels,
             window + (from * taps_.spread - first) * kStrip);
    }
    std::fill_n(window + (end - first) * kStrip, (first + count - end) * kStrip, E(0));
  }

  // factors [taps][kStrip], the taps in reverse if `back`.
  void pack_weight(const Tensor& weight, int64_t strip, bool back, E* factors) const noexcept {
    const int64_t taps = taps_.taps;
    const auto* at = static_cast<const std::byte*>(weight.data()) +
                     (strip * kStrip * taps + (back ? taps - 1 : 0)) * size_of(sizes_.dtype);
    layer_kernels<E>().sequences.pack_strip[type_](at, back ? -1 : 1, taps, taps,
                                                   channels_of(strip), factors);
  }

  // Computes a block of `to`. 16-bit numbers pass through `sums` [rows, kStrip].
  void convolve(const E* window, const E* factors, const E* bias, bool add, const ConvBlock& b,
                const TensorView& to, E* sums) const noexcept {
    std::byte* const out = row_of(to, b, b.first_row);
    const bool in_place = sizes_.dtype == sizes_.computed;
    layer_kernels<E>().sequences.add_windows({.window = window,
                                              .factors = factors,
                                              .bias = bias,
                                              .outs = b.rows,
                                              .terms = taps_.taps,
                                              .out_step = taps_.step,
                                              .term_step = taps_.dilation,
                                              .channels = b.channels,
                                              .add = add && in_place,
                                              .out = in_place ? reinterpret_cast<E*>(out) : sums,
                                              .out_stride = in_place ? sizes_.out : kStrip});
    if (!in_place)
      kernels<E>().matrices.store[type_](sums, kStrip, b.rows, b.channels,
                                         {.add = add, .out = out, .row_stride = sizes_.out});
  }

  // sums [taps + 1][kStrip] += the gradients of the weight and of the bias of a block.
  void add_gradients(const E* window, const E* d_y, const ConvBlock& b, E* sums) const noexcept {
    layer_kernels<E>().sequences.add_windows({.window = window,
                                              .factors = d_y,
                                              .bias = nullptr,
                                              .outs = taps_.taps,
                                              .terms = b.rows,
                                              .out_step = taps_.dilation,
                                              .term_step = taps_.step,
                                              .channels = kStrip,
                                              .add = true,
                                              .out = sums,
                                              .out_stride = kStrip});
    kernels<E>().matrices.add_column_sums(d_y, kStrip, b.rows, kStrip, sums + taps_.taps * kStrip);
  }

 private:
  const ConvSizes& sizes_;
  const ConvTaps& taps_;
  const DepthwiseCut& cut_;
  int type_;
};

template <class E>
void convolve_strips(const ConvSizes& s, bool back, const Conv1d& layer, const TensorView& source,
                     const TensorView& to, bool add, const Run& run) {
  const ConvTaps& taps = back ? s.back : s.forward;
  const DepthwiseCut cut = depthwise_cut(s, taps, run.context);
  const Arena::Frame frame(run.scratch);
  const TensorView weights = run.scratch.take(s.computed, {cut.strips, taps.taps, kStrip});
  const TensorView biases = run.scratch.take(s.computed, {cut.strips, kStrip});
  const int64_t sum_rows = s.dtype == s.computed ? 0 : kBlockRows;
  const TensorView windows =
      run.scratch.take(s.computed, {cut.workers, cut.window_rows + sum_rows, kStrip});
  if (run.counts()) return;
  const Strips<E> strips(s, taps, cut);
  auto* const factors = static_cast<E*>(weights.data);
  auto* const bias = static_cast<E*>(biases.data);
  const bool has_bias = !back && layer.bias.defined();
  for (int64_t i = 0; i < cut.strips; ++i) {
    strips.pack_weight(layer.weight.value, i, back, factors + i * taps.taps * kStrip);
    if (has_bias)
      strips.pack(
          static_cast<const std::byte*>(layer.bias.value.data()) + i * kStrip * size_of(s.dtype), 1,
          strips.channels_of(i), bias + i * kStrip);
  }
  const int64_t tasks = s.batch * cut.blocks * cut.strips;
  TaskRun(run.context, tasks).run(tasks, cut.workers, cut.to_executor, [&](int64_t t, int worker) {
    const int64_t strip = t % cut.strips;
    const ConvBlock b = strips.block(strip, t / cut.strips);
    E* const window =
        static_cast<E*>(windows.data) + worker * (cut.window_rows + sum_rows) * kStrip;
    strips.fill_window(source, b, window);
    strips.convolve(window, factors + strip * taps.taps * kStrip,
                    has_bias ? bias + strip * kStrip : nullptr, add, b, to,
                    window + cut.window_rows * kStrip);
  });
}

// Adds sums [taps + 1][kStrip] of a strip to the gradients of its channels.
template <class E>
void store_gradients(const ConvSizes& s, Conv1d& layer, int64_t strip, int64_t channels,
                     const E* sums) {
  const int64_t taps = s.forward.taps, first = strip * kStrip;
  const auto store = kernels<E>().matrices.store[static_cast<int>(s.computed)];
  if (layer.weight.learns())
    store(sums, kStrip, taps, channels,
          {.add = true,
           .out = static_cast<E*>(layer.weight.gradient.data()) + first * taps,
           .row_stride = 1,
           .column_stride = taps});
  if (layer.bias.defined() && layer.bias.learns())
    store(sums + taps * kStrip, kStrip, 1, channels,
          {.add = true, .out = static_cast<E*>(layer.bias.gradient.data()) + first});
}

template <class E>
void add_strip_gradients(const ConvSizes& s, Conv1d& layer, const TensorView& x,
                         const TensorView& d_y, const Run& run) {
  const DepthwiseCut cut = depthwise_cut(s, s.forward, run.context);
  const int64_t units = s.batch * cut.blocks, parts = std::min(units, kGradientParts);
  const int64_t rows = s.forward.taps + 1;
  const Arena::Frame frame(run.scratch);
  const TensorView sums = run.scratch.take(s.computed, {parts, cut.strips, rows, kStrip});
  const TensorView total = run.scratch.take(s.computed, {rows, kStrip});
  const TensorView windows =
      run.scratch.take(s.computed, {cut.workers, cut.window_rows + kBlockRows, kStrip});
  if (run.counts() || parts == 0) return;
  const Strips<E> strips(s, s.forward, cut);
  auto* const all_sums = static_cast<E*>(sums.data);
  const int64_t tasks = parts * cut.strips;
  TaskRun(run.context, tasks).run(tasks, cut.workers, cut.to_executor, [&](int64_t t, int worker) {
    const int64_t part = t / cut.strips;
    E* const own = all_sums + t * rows * kStrip;
    E* const window =
        static_cast<E*>(windows.data) + worker * (cut.window_rows + kBlockRows) * kStrip;
    E* const d_rows = window + cut.window_rows * kStrip;
    std::fill_n(own, rows * kStrip, E(0));
    for (int64_t unit = part * units / parts; unit < (part + 1) * units / parts; ++unit) {
      const ConvBlock b = strips.block(t % cut.strips, unit);
      strips.fill_window(x, b, window);
      strips.pack(strips.row_of(d_y, b, b.first_row), b.rows, b.channels, d_rows);
      strips.add_gradients(window, d_rows, b, own);
    }
  });
  auto* const of_strip = static_cast<E*>(total.data);
  for (int64_t i = 0; i < cut.strips; ++i) {
    std::fill_n(of_strip, rows * kStrip, E(0));
    kernels<E>().matrices.add_column_sums(all_sums + i * rows * kStrip, cut.strips * rows * kStrip,
                                          parts, rows * kStrip, of_strip);
    store_gradients(s, layer, i, strips.channels_of(i), of_strip);
  }
}

}  // namespace

void convolve_depthwise(const ConvSizes& sizes, bool back, const Conv1d& layer,
                        const TensorView& source, const TensorView& to, bool add, const Run& run) {
  in_computed_type("x", sizes.dtype, [&]<class E>() {
    convolve_strips<E>(sizes, back, layer, source, to, add, run);
  });
}

void add_depthwise_gradients(const ConvSizes& sizes, Conv1d& layer, const TensorView& x,
                             const TensorView& d_y, const Run& run) {
  in_computed_type("x", sizes.dtype,
                   [&]<class E>() { add_strip_gradients<E>(sizes, layer, x, d_y, run); });
}

}  // namespace rapt::nn
