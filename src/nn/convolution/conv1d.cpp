// Convolutions as products of gathered rows, and the public functions of all kinds.
#include "rapt/nn/conv1d.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "nn/convolution/conv1d_call.h"
#include "nn/dense.h"
#include "nn/row_tasks.h"
#include "rapt/product.h"

namespace rapt::nn {
namespace {

// Elements that are gathered at once, about, and the fewest rows. A product packs its weight once
// for so many rows.
constexpr int64_t kGatheredElements = int64_t{1} << 19;
constexpr int64_t kFewestGathered = 480;

[[noreturn]] void fail_conv(ErrorCode code, const std::string& message) {
  throw Error(code, message);
}

// (taps - 1) * dilation. Throws Error(overflow).
int64_t reach_of(int64_t taps, int64_t dilation) {
  int64_t reach = 0;
  if (__builtin_mul_overflow(taps - 1, dilation, &reach))
    fail_conv(ErrorCode::overflow, "a kernel of " + std::to_string(taps) + " with dilation " +
                                       std::to_string(dilation) + " does not fit into 64 bits");
  return reach;
}

ConvSizes conv_sizes(const Conv1d& layer, const TensorView& x) {
  if (layer.weight.value.rank() != 3 || layer.groups < 1 || layer.stride < 1 ||
      layer.dilation < 1 || layer.left < 0 || layer.right < 0 || layer.kernel() < 1 ||
      layer.out_channels() % layer.groups != 0)
    fail_conv(
        ErrorCode::argument,
        "the numbers and the weight of a Conv1d do not fit together; make_conv1d() makes one");
  if (!x.defined()) fail_conv(ErrorCode::argument, "x is missing");
  if (x.rank != 3)
    fail_conv(ErrorCode::shape, "x " + to_string(x.dims()) + "; expected [batch, length, in]");
  const int64_t length = x.shape[1], out_length = layer.output_length(length);
  const int64_t reach = reach_of(layer.kernel(), layer.dilation);
  ConvSizes s{.batch = x.shape[0],
              .in = layer.in_channels(),
              .out = layer.out_channels(),
              .groups = layer.groups};
  s.forward = {.rows = out_length,
               .source_rows = length,
               .taps = layer.kernel(),
               .step = layer.stride,
               .spread = 1,
               .dilation = layer.dilation,
               .left = layer.left};
  s.back = {.rows = length,
            .source_rows = out_length,
            .taps = layer.kernel(),
            .step = 1,
            .spread = layer.stride,
            .dilation = layer.dilation,
            .left = reach - layer.left};
  s.dtype = layer.weight.value.dtype();
  s.computed = s.dtype == DType::f64 ? DType::f64 : DType::f32;
  return s;
}

void check_conv_parameter(const char* name, const Parameter& p, Shape shape,
                          const ConvSizes& sizes) {
  check_input(name, p.value.view(), shape, sizes.dtype);
  if (p.learns()) check_input("a gradient", p.gradient.view(), shape, sizes.computed);
}

void check_conv_call(const ConvSizes& s, const Conv1d& layer, const TensorView& x) {
  const int64_t weight[] = {s.out, s.in / s.groups, s.forward.taps};
  check_conv_parameter("weight", layer.weight, weight, s);
  if (layer.bias.defined()) check_conv_parameter("bias", layer.bias, {&s.out, 1}, s);
  const int64_t x_shape[] = {s.batch, s.forward.source_rows, s.in};
  check_input("x", x, x_shape, s.dtype);
}

// [batch, length, channels] as rows of the channels [begin, end).
TensorView channels_of_rows(const TensorView& all, int64_t begin, int64_t end) {
  return as_matrix(all).slice(1, begin, end);
}

// Copies what the taps of rows [begin, end), counted through all sequences, read in the channels
// [channel, channel + count): gathered [end - begin, taps, count].
void gather(const ConvTaps& taps, const TensorView& source, int64_t channel, int64_t count,
            int64_t begin, int64_t end, std::byte* gathered) {
  const int64_t size = size_of(source.dtype), row_bytes = source.shape[2] * size;
  const auto bytes = static_cast<size_t>(count * size);
  // Do taps that follow each other read rows that follow each other, all of them?
  const bool runs = taps.dilation == 1 && taps.spread == 1 && count == source.shape[2];
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = row % taps.rows * taps.step - taps.left;
    const auto* const rows = static_cast<const std::byte*>(source.data) + channel * size +
                             row / taps.rows * taps.source_rows * row_bytes;
    if (runs) {
      const int64_t none = std::clamp<int64_t>(-first, 0, taps.taps);
      const int64_t past = std::clamp<int64_t>(taps.source_rows - first, none, taps.taps);
      std::memset(gathered, 0, static_cast<size_t>(none) * bytes);
      if (past > none)
        std::memcpy(gathered + none * row_bytes, rows + (first + none) * row_bytes,
                    static_cast<size_t>(past - none) * bytes);
      std::memset(gathered + past * row_bytes, 0, static_cast<size_t>(taps.taps - past) * bytes);
      gathered += taps.taps * row_bytes;
      continue;
    }
    for (int64_t k = 0; k < taps.taps; ++k, gathered += bytes) {
      const int64_t p = first + k * taps.dilation;
      if (p >= 0 && p % taps.spread == 0 && p / taps.spread < taps.source_rows)
        std::memcpy(gathered, rows + p / taps.spread * row_bytes, bytes);
      else
        std::memset(gathered, 0, bytes);
    }
  }
}

// How many rows are gathered at once; by the sizes alone.
int64_t gathered_rows(const ConvSizes& s, const ConvTaps& taps, int64_t columns) {
  const int64_t rows = std::max(kGatheredElements / std::max<int64_t>(columns, 1), kFewestGathered);
  return std::min(rows, s.batch * taps.rows);
}

// Calls product(gathered [rows, columns], first row, rows) for all rows of a convolution by
// `taps`, some rows at a time, for the channels [channel, channel + count) of the source.
template <class Product>
void for_gathered(const ConvSizes& s, const ConvTaps& taps, const TensorView& source,
                  int64_t channel, int64_t count, const TensorView& gathered, const Run& run,
                  const Product& product) {
  const int64_t columns = taps.taps * count, all = s.batch * taps.rows;
  const int64_t row_bytes = columns * size_of(s.dtype);
  for (int64_t first = 0; first < all; first += gathered.shape[0]) {
    const int64_t rows = std::min(gathered.shape[0], all - first);
    for_ranges(run.context, rows, static_cast<double>(rows * columns),
               [&](int64_t begin, int64_t end) {
                 gather(taps, source, channel, count, first + begin, first + end,
                        static_cast<std::byte*>(gathered.data) + begin * row_bytes);
               });
    product(gathered.slice(0, 0, rows), first, rows);
  }
}

// The weight of a group as the gathered rows need it. Forward: [out, taps, in]; back: [in, taps,
// out], the taps in reverse; in and out are those of the group.
template <class T>
void order_weight(const T* weight, int64_t out, int64_t in, int64_t taps, bool back, T* ordered) {
  for (int64_t o = 0; o < out; ++o)
    for (int64_t i = 0; i < in; ++i, weight += taps)
      for (int64_t k = 0; k < taps; ++k)
        ordered[back ? (i * taps + taps - 1 - k) * out + o : (o * taps + k) * in + i] = weight[k];
}

void order_weight(const ConvSizes& s, const Conv1d& layer, int64_t group, bool back,
                  std::byte* ordered) {
  const int64_t out = s.out / s.groups, in = s.in / s.groups, taps = s.forward.taps;
  const auto* const from = static_cast<const std::byte*>(layer.weight.value.data()) +
                           group * out * in * taps * size_of(s.dtype);
  const auto order = [&]<class T>(T*) {
    order_weight(reinterpret_cast<const T*>(from), out, in, taps, back,
                 reinterpret_cast<T*>(ordered));
  };
  switch (size_of(s.dtype)) {
    case 2:
      return order(static_cast<uint16_t*>(nullptr));
    case 4:
      return order(static_cast<uint32_t*>(nullptr));
    default:
      return order(static_cast<uint64_t*>(nullptr));
  }
}

// y = bias + the convolution of x, or d_x = that of d_y, or + that if `add`.
void convolve_groups(const ConvSizes& s, bool back, const Conv1d& layer, const TensorView& source,
                     const TensorView& to, bool add, const Run& run) {
  const ConvTaps& taps = back ? s.back : s.forward;
  const int64_t in = (back ? s.out : s.in) / s.groups, out = (back ? s.in : s.out) / s.groups;
  const int64_t columns = taps.taps * in;
  const Arena::Frame frame(run.scratch);
  const TensorView weight = run.scratch.take(s.dtype, {out, columns});
  const TensorView gathered = run.scratch.take(s.dtype, {gathered_rows(s, taps, columns), columns});
  if (run.counts()) {
    run.scratch.need(
        product_workspace_bytes(gathered.shape[0], columns, out, s.computed, run.context));
    return;
  }
  for (int64_t g = 0; g < s.groups; ++g) {
    order_weight(s, layer, g, back, static_cast<std::byte*>(weight.data));
    ProductOptions options{.add = add};
    if (!back && layer.bias.defined())
      options.bias = layer.bias.value.view().slice(0, g * out, (g + 1) * out);
    const TensorView to_group = channels_of_rows(to, g * out, (g + 1) * out);
    for_gathered(s, taps, source, g * in, in, gathered, run,
                 [&](const TensorView& rows, int64_t first, int64_t count) {
                   multiply(rows, weight, to_group.slice(0, first, first + count), options,
                            run.context, run.scratch.rest());
                 });
  }
}

// gradient [out, in, taps] += ordered [out, taps, in].
template <class E>
void add_ordered(const E* ordered, int64_t out, int64_t in, int64_t taps, E* gradient) {
  const auto store = kernels<E>().matrices.store[static_cast<int>(dtype_of<E>())];
  for (int64_t o = 0; o < out; ++o)
    store(ordered + o * taps * in, in, taps, in,
          {.add = true, .out = gradient + o * taps * in, .row_stride = 1, .column_stride = taps});
}

// Adds to the gradients of the weight and the bias, where they learn.
template <class E>
void add_group_gradients(const ConvSizes& s, Conv1d& layer, const TensorView& x,
                         const TensorView& d_y, const Run& run) {
  const ConvTaps& taps = s.forward;
  const int64_t in = s.in / s.groups, out = s.out / s.groups, columns = taps.taps * in;
  const Arena::Frame frame(run.scratch);
  const TensorView d_weight = run.scratch.take(s.computed, {out, columns});
  const TensorView gathered = run.scratch.take(s.dtype, {gathered_rows(s, taps, columns), columns});
  if (run.counts()) {
    run.scratch.need(
        product_workspace_bytes(gathered.shape[0], columns, out, s.computed, run.context));
    return;
  }
  auto* const ordered = static_cast<E*>(d_weight.data);
  for (int64_t g = 0; g < s.groups; ++g) {
    if (layer.weight.learns()) std::fill_n(ordered, out * columns, E(0));
    TensorView d_bias;
    if (layer.bias.defined() && layer.bias.learns())
      d_bias = layer.bias.gradient.view().slice(0, g * out, (g + 1) * out);
    const TensorView of_group = channels_of_rows(d_y, g * out, (g + 1) * out);
    for_gathered(s, taps, x, g * in, in, gathered, run,
                 [&](const TensorView& rows, int64_t first, int64_t count) {
                   add_weight_gradient(of_group.slice(0, first, first + count), rows,
                                       layer.weight.learns() ? d_weight : TensorView(), d_bias,
                                       run.context, run.scratch.rest());
                 });
    if (layer.weight.learns())
      add_ordered(ordered, out, in, taps.taps,
                  static_cast<E*>(layer.weight.gradient.data()) + g * out * columns);
  }
}

// The weight [out, in, 1] or its gradient as a matrix.
TensorView pointwise_matrix(const TensorView& weight) {
  TensorView matrix = weight;
  matrix.rank = 2;
  return matrix;
}

void need_pointwise(const ConvSizes& s, const Run& run) {
  run.scratch.need(
      product_workspace_bytes(s.batch * s.forward.rows, s.in, s.out, s.computed, run.context));
}

void add_pointwise_gradients(const ConvSizes& s, Conv1d& layer, const TensorView& x,
                             const TensorView& d_y, const Run& run) {
  if (run.counts()) return need_pointwise(s, run);
  add_weight_gradient(
      as_matrix(d_y), as_matrix(x),
      layer.weight.learns() ? pointwise_matrix(layer.weight.gradient.view()) : TensorView(),
      layer.bias.learns() ? layer.bias.gradient.view() : TensorView(), run.context,
      run.scratch.rest());
}

void convolve_pointwise(const ConvSizes& s, bool back, const Conv1d& layer,
                        const TensorView& source, const TensorView& to, bool add, const Run& run) {
  if (run.counts()) return need_pointwise(s, run);
  const TensorView weight = pointwise_matrix(layer.weight.value.view());
  if (back)
    return multiply_gradient(as_matrix(source), weight, as_matrix(to), add, run.context,
                             run.scratch.rest());
  ProductOptions options{.add = add};
  if (layer.bias.defined()) options.bias = layer.bias.value.view();
  multiply(as_matrix(source), weight, as_matrix(to), options, run.context, run.scratch.rest());
}

void convolve(const ConvSizes& s, bool back, const Conv1d& layer, const TensorView& source,
              const TensorView& to, bool add, const Run& run) {
  if (s.batch == 0 || (back ? s.back : s.forward).rows == 0 || (back ? s.in : s.out) == 0) return;
  (s.pointwise()   ? convolve_pointwise
   : s.depthwise() ? convolve_depthwise
                   : convolve_groups)(s, back, layer, source, to, add, run);
}

void add_conv_gradients(const ConvSizes& s, Conv1d& layer, const TensorView& x,
                        const TensorView& d_y, const Run& run) {
  const bool learns = layer.weight.learns() || (layer.bias.defined() && layer.bias.learns());
  if (!learns || s.batch == 0 || s.forward.rows == 0 || s.out == 0) return;
  if (s.pointwise()) return add_pointwise_gradients(s, layer, x, d_y, run);
  if (s.depthwise()) return add_depthwise_gradients(s, layer, x, d_y, run);
  in_computed_type("x", s.dtype, [&]<class E>() { add_group_gradients<E>(s, layer, x, d_y, run); });
}

}  // namespace

int64_t Conv1d::output_length(int64_t length) const {
  int64_t with_zeros = 0;
  const int64_t reach = reach_of(kernel(), dilation);
  if (__builtin_add_overflow(length, left, &with_zeros) ||
      __builtin_add_overflow(with_zeros, right, &with_zeros))
    fail_conv(ErrorCode::overflow, "a sequence with its zeros does not fit into 64 bits");
  return with_zeros > reach ? (with_zeros - reach - 1) / stride + 1 : 0;
}

Conv1d make_conv1d(int64_t in_channels, int64_t out_channels, int64_t kernel,
                   const Conv1dOptions& options, DType dtype) {
  if (options.groups < 1 || options.stride < 1 || options.dilation < 1 || kernel < 1)
    fail_conv(ErrorCode::argument, "groups " + std::to_string(options.groups) + ", stride " +
                                       std::to_string(options.stride) + ", dilation " +
                                       std::to_string(options.dilation) + ", kernel " +
                                       std::to_string(kernel) + "; expected at least 1 each");
  if (in_channels % options.groups != 0 || out_channels % options.groups != 0)
    fail_conv(ErrorCode::argument,
              std::to_string(options.groups) + " groups do not divide channels " +
                  std::to_string(in_channels) + " and " + std::to_string(out_channels));
  if (options.padding == ConvPadding::same && options.stride != 1)
    fail_conv(ErrorCode::argument, "padding `same` with stride " + std::to_string(options.stride) +
                                       "; give the layer's left and right yourself");
  Conv1d layer;
  layer.groups = options.groups, layer.stride = options.stride, layer.dilation = options.dilation;
  const int64_t reach = reach_of(kernel, options.dilation);
  if (options.padding == ConvPadding::same)
    layer.left = reach / 2, layer.right = reach - layer.left;
  else if (options.padding == ConvPadding::causal)
    layer.left = reach;
  layer.weight = make_parameter(dtype, {out_channels, in_channels / options.groups, kernel});
  if (options.bias)
    layer.bias = make_parameter(dtype, {out_channels},
                                Init::fan_in_uniform(in_channels / options.groups * kernel));
  return layer;
}

void forward(const Conv1d& layer, const TensorView& x, const TensorView& y, const Run& run) {
  const ConvSizes s = conv_sizes(layer, x);
  if (!run.counts()) {
    check_conv_call(s, layer, x);
    const int64_t y_shape[] = {s.batch, s.forward.rows, s.out};
    check_output("y", y, y_shape, s.dtype);
    check_apart("y", y, "x", x);
  }
  convolve(s, false, layer, x, y, false, run);
}

void backward(Conv1d& layer, const TensorView& x, const TensorView& d_y, const TensorView& d_x,
              const Run& run, bool add) {
  const ConvSizes s = conv_sizes(layer, x);
  if (!run.counts()) {
    check_conv_call(s, layer, x);
    const int64_t y_shape[] = {s.batch, s.forward.rows, s.out};
    check_input("d_y", d_y, y_shape, s.dtype);
    if (d_x.defined()) check_output("d_x", d_x, x.dims(), s.dtype);
    check_apart("d_x", d_x, "x", x);
    check_apart("d_x", d_x, "d_y", d_y);
  }
  add_conv_gradients(s, layer, x, d_y, run);
  if (d_x.defined()) convolve(s, true, layer, d_y, d_x, add, run);
}

}  // namespace rapt::nn
