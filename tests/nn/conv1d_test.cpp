#include "rapt/nn/conv1d.h"

#include <gtest/gtest.h>

#include <cmath>

#include "memory/allocation_hooks.h"
#include "nn/gradient_check.h"
#include "nn/same_bits.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using nn::ConvPadding;

struct ConvCase {
  int64_t batch, length, in, out, kernel;
  nn::Conv1dOptions options;

  nn::Conv1d layer(DType dtype) const {
    nn::Conv1d layer = nn::make_conv1d(in, out, kernel, options, dtype);
    draw_parameters(layer, 1);
    return layer;
  }
};

std::vector<ConvCase> conv_cases() {
  return {
      {2, 9, 3, 5, 3, {.padding = ConvPadding::same}},
      {2, 9, 3, 5, 4, {.padding = ConvPadding::same, .dilation = 2}},
      {1, 7, 2, 4, 3, {.padding = ConvPadding::causal, .bias = false}},
      {3, 11, 4, 3, 3, {.padding = ConvPadding::valid, .stride = 2}},
      {2, 12, 4, 6, 5, {.padding = ConvPadding::causal, .groups = 2, .stride = 3}},
      {2, 6, 6, 4, 3, {.padding = ConvPadding::valid, .groups = 2, .dilation = 2}},
      {2, 5, 7, 9, 1, {}},
      {2, 5, 7, 9, 1, {.stride = 2}},
      {1, 1, 1, 1, 1, {.groups = 1}},
      {2, 3, 2, 2, 5, {.padding = ConvPadding::same}},   // zeros on both sides of each row
      {2, 2, 3, 3, 5, {.padding = ConvPadding::valid}},  // y has no rows
      {0, 4, 3, 3, 3, {.padding = ConvPadding::same}},
      // depthwise
      {2, 9, 5, 5, 3, {.padding = ConvPadding::same, .groups = 5}},
      {2, 300, 3, 3, 31, {.padding = ConvPadding::same, .groups = 3}},
      {1, 140, 37, 37, 4, {.padding = ConvPadding::causal, .groups = 37, .dilation = 3}},
      {2, 21, 33, 33, 5, {.padding = ConvPadding::valid, .groups = 33, .stride = 2}},
      {1, 19, 4, 4, 6, {.padding = ConvPadding::causal, .groups = 4, .stride = 3, .dilation = 2}},
      {1, 2, 4, 4, 9, {.padding = ConvPadding::valid, .groups = 4, .bias = false}},  // no rows
      {2, 4, 8, 8, 1, {.groups = 8}},
      {2, 5, 3, 6, 3, {.padding = ConvPadding::same, .groups = 3}},  // two outputs of a channel
  };
}

double number_at(const Tensor& t, int64_t i) {
  const auto at = static_cast<size_t>(i);
  switch (t.dtype()) {
    case DType::f64:
      return t.values<double>()[at];
    case DType::f32:
      return t.values<float>()[at];
    case DType::bf16:
      return float(t.values<BFloat16>()[at]);
    default:
      return float(t.values<Float16>()[at]);
  }
}

// The formula of conv1d.h, and the sum of the sizes of its terms.
struct PlainConv {
  double y, size;
};
PlainConv plain_conv(const nn::Conv1d& layer, const Tensor& x, int64_t b, int64_t t, int64_t o) {
  const int64_t length = x.dim(1), in = x.dim(2), in_group = in / layer.groups;
  const int64_t group = o / (layer.out_channels() / layer.groups);
  double y = layer.bias.defined() ? number_at(layer.bias.value, o) : 0, size = std::abs(y);
  for (int64_t k = 0; k < layer.kernel(); ++k) {
    const int64_t row = t * layer.stride + k * layer.dilation - layer.left;
    if (row < 0 || row >= length) continue;
    for (int64_t i = 0; i < in_group; ++i) {
      const double term = number_at(layer.weight.value, (o * in_group + i) * layer.kernel() + k) *
                          number_at(x, (b * length + row) * in + group * in_group + i);
      y += term, size += std::abs(term);
    }
  }
  return {y, size};
}

TEST(Conv1dTest, IsItsFormula) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16}) {
    const double epsilon = dtype == DType::f64    ? 1e-15
                           : dtype == DType::f32  ? 1e-6
                           : dtype == DType::bf16 ? 8e-3
                                                  : 1e-3;
    int index = 0;
    for (const ConvCase& c : conv_cases()) {
      SCOPED_TRACE(index++);
      const nn::Conv1d layer = c.layer(dtype);
      const Tensor x = normal(dtype, {c.batch, c.length, c.in}, 7);
      const int64_t rows = layer.output_length(c.length);
      Tensor y(dtype, {c.batch, rows, c.out});
      Counted()([&](nn::Arena&, const nn::Run& run) { forward(layer, x, y, run); });
      for (int64_t b = 0; b < c.batch; ++b)
        for (int64_t t = 0; t < rows; ++t)
          for (int64_t o = 0; o < c.out; ++o) {
            const PlainConv expected = plain_conv(layer, x, b, t, o);
            EXPECT_NEAR(number_at(y, (b * rows + t) * c.out + o), expected.y,
                        epsilon * expected.size)
                << b << " " << t << " " << o;
          }
    }
  }
}

TEST(Conv1dTest, LengthsAreThoseOfPyTorch) {
  const auto length = [](nn::Conv1dOptions options, int64_t kernel, int64_t rows) {
    return nn::make_conv1d(options.groups, options.groups, kernel, options).output_length(rows);
  };
  EXPECT_EQ(length({}, 3, 10), 8);
  EXPECT_EQ(length({.stride = 2}, 3, 10), 4);
  EXPECT_EQ(length({.dilation = 4}, 3, 10), 2);
  EXPECT_EQ(length({.padding = ConvPadding::same, .dilation = 3}, 4, 10), 10);
  EXPECT_EQ(length({.padding = ConvPadding::causal, .stride = 2}, 4, 9), 5);
  EXPECT_EQ(length({}, 11, 10), 0);
}

// Whisper's second convolution: padding = 1 on both sides and stride 2.
TEST(Conv1dTest, TakesZerosOnBothSides) {
  nn::Conv1d layer = nn::make_conv1d(2, 3, 3, {.stride = 2}, DType::f64);
  layer.left = layer.right = 1;
  draw_parameters(layer, 1);
  const Tensor x = normal(DType::f64, {1, 8, 2}, 2);
  ASSERT_EQ(layer.output_length(8), 4);
  Tensor y(DType::f64, {1, 4, 3});
  Counted()([&](nn::Arena&, const nn::Run& run) { forward(layer, x, y, run); });
  for (int64_t t = 0; t < 4; ++t)
    EXPECT_NEAR(number_at(y, t * 3), plain_conv(layer, x, 0, t, 0).y, 1e-14);
}

TEST(Conv1dTest, GradientsAreCentralDifferences) {
  int index = 0;
  for (const ConvCase& c : conv_cases()) {
    SCOPED_TRACE(index++);
    nn::Conv1d layer = c.layer(DType::f64);
    Tensor x = normal(DType::f64, {c.batch, c.length, c.in}, 7);
    Tensor y(DType::f64, {c.batch, layer.output_length(c.length), c.out});
    Tensor d_x(DType::f64, x.dims());
    const Tensor d_y = normal(DType::f64, {y.dim(0), y.dim(1), y.dim(2)}, 8);
    const auto loss = [&] {
      Counted()([&](nn::Arena&, const nn::Run& run) { forward(layer, x, y, run); });
      return dot(y, d_y);
    };
    Counted()([&](nn::Arena&, const nn::Run& run) { backward(layer, x, d_y, d_x, run); });
    std::vector<Checked> checked{{"x", &x, &d_x}};
    add_parameters(layer, checked);
    expect_gradients(checked, loss);
  }
}

TEST(Conv1dTest, AddsToGradientsAndSkipsFrozenParameters) {
  for (const int64_t groups : {1, 2, 6}) {
    nn::Conv1d layer =
        nn::make_conv1d(6, 6, 3, {.padding = ConvPadding::same, .groups = groups}, DType::f64);
    draw_parameters(layer, 1);
    const Tensor x = normal(DType::f64, {2, 5, 6}, 2), d_y = normal(DType::f64, {2, 5, 6}, 3);
    Tensor once(DType::f64, {2, 5, 6}), twice(DType::f64, {2, 5, 6});
    Tensor d_weight, d_bias;
    Counted()([&](nn::Arena&, const nn::Run& run) { backward(layer, x, d_y, once, run); });
    d_weight = Tensor::copy_of(layer.weight.gradient.view());
    d_bias = Tensor::copy_of(layer.bias.gradient.view());
    Counted()([&](nn::Arena&, const nn::Run& run) {
      if (!run.counts())
        std::copy_n(once.values<double>().data(), 60, twice.values<double>().data());
      backward(layer, x, d_y, twice, run, true);
    });
    for (size_t i = 0; i < 60; ++i)
      EXPECT_NEAR(twice.values<double>()[i], 2 * once.values<double>()[i], 1e-13);
    for (int64_t i = 0; i < d_weight.count(); ++i)
      EXPECT_NEAR(number_at(layer.weight.gradient, i), 2 * number_at(d_weight, i), 1e-12);

    layer.weight.gradient = {};  // the bias alone, without d_x
    Counted()([&](nn::Arena&, const nn::Run& run) { backward(layer, x, d_y, {}, run); });
    for (int64_t i = 0; i < 6; ++i)
      EXPECT_NEAR(number_at(layer.bias.gradient, i), 3 * number_at(d_bias, i), 1e-12);
    nn::freeze(layer);
    Counted()([&](nn::Arena&, const nn::Run& run) { backward(layer, x, d_y, once, run); });
    EXPECT_FALSE(layer.bias.learns());
  }
}

TEST(Conv1dTest, HasTheSameBitsForAnyThreads) {
  for (const ConvCase& c :
       {ConvCase{3, 400, 24, 40, 5, {.padding = ConvPadding::same}},
        ConvCase{3, 1000, 70, 70, 9, {.padding = ConvPadding::causal, .groups = 70}},
        ConvCase{2, 700, 16, 16, 7, {.padding = ConvPadding::same, .groups = 4}}})
    expect_same_bits([&](const Context& context) {
      nn::Conv1d layer = c.layer(DType::f32);
      const Tensor x = normal(DType::f32, {c.batch, c.length, c.in}, 7);
      const Tensor d_y = normal(DType::f32, {c.batch, c.length, c.out}, 8);
      std::vector<Tensor> results;
      results.emplace_back(DType::f32, d_y.dims());
      results.emplace_back(DType::f32, x.dims());
      Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
        forward(layer, x, results[0], run);
        backward(layer, x, d_y, results[1], run);
      });
      append_gradients(layer, results);
      return results;
    });
}

TEST(Conv1dTest, AllocatesNothing) {
  if (!RAPT_ALLOCATION_HOOKS) GTEST_SKIP() << "the sanitizer owns malloc";
  Context context;
  context.threads = 1;
  for (const ConvCase& c : conv_cases()) {
    nn::Conv1d layer = c.layer(DType::f32);
    const Tensor x = normal(DType::f32, {c.batch, c.length, c.in}, 7);
    Tensor y(DType::f32, {c.batch, layer.output_length(c.length), c.out}),
        d_x(DType::f32, x.dims());
    Counted{.context = context}([&](nn::Arena&, const nn::Run& run) {
      laws::start_counting();
      forward(layer, x, y, run);
      backward(layer, x, y, d_x, run);
      const laws::Allocations allocations = laws::stop_counting();
      EXPECT_TRUE(run.counts() || allocations.made == 0) << allocations.made;
    });
  }
}

TEST(Conv1dTest, ANaNReachesTheRowsThatReadIt) {
  for (const int64_t groups : {1, 4}) {
    nn::Conv1d layer =
        nn::make_conv1d(4, 4, 3, {.padding = ConvPadding::same, .groups = groups}, DType::f32);
    draw_parameters(layer, 1);
    Tensor x = normal(DType::f32, {2, 9, 4}, 2), y(DType::f32, {2, 9, 4});
    x.values<float>()[4 * 9] = NAN;  // the first channel of the second sequence's first row
    Counted()([&](nn::Arena&, const nn::Run& run) { forward(layer, x, y, run); });
    for (int64_t row = 0; row < 18; ++row)
      EXPECT_EQ(std::isnan(number_at(y, row * 4)), row == 9 || row == 10) << row;
  }
}

TEST(Conv1dTest, RejectsWhatDoesNotFit) {
  const auto make = [](int64_t in, int64_t out, int64_t kernel, nn::Conv1dOptions options) {
    laws::expect_error(ErrorCode::argument, {}, [&] { nn::make_conv1d(in, out, kernel, options); });
  };
  make(4, 4, 0, {});
  make(4, 4, 3, {.groups = 3});
  make(4, 6, 3, {.groups = 4});
  make(4, 4, 3, {.stride = 0});
  make(4, 4, 3, {.dilation = 0});
  make(4, 4, 3, {.padding = ConvPadding::same, .stride = 2});
  laws::expect_error(ErrorCode::overflow, {},
                     [&] { nn::make_conv1d(1, 1, 5, {.dilation = INT64_MAX / 2}); });

  nn::Conv1d layer = nn::make_conv1d(4, 6, 3, {.padding = ConvPadding::same});
  Tensor x(DType::f32, {2, 5, 4}), y(DType::f32, {2, 5, 6}), d_x(DType::f32, {2, 5, 4});
  Tensor narrow(DType::f32, {2, 5, 3}), wrong(DType::f64, {2, 5, 4}), matrix(DType::f32, {5, 4});
  std::vector<std::byte> memory(1 << 16);
  nn::Arena arena{memory};
  const nn::Run run{.scratch = arena, .context = {}};
  const auto rejects = [&](ErrorCode code, const char* name, const TensorView& a,
                           const TensorView& b) {
    laws::expect_error(code, {name}, [&] { forward(layer, a, b, run); });
  };
  rejects(ErrorCode::argument, "x", {}, y);
  rejects(ErrorCode::shape, "x", matrix, y);
  rejects(ErrorCode::shape, "x", narrow, y);
  rejects(ErrorCode::dtype, "x", wrong, y);
  rejects(ErrorCode::shape, "y", x, narrow);
  rejects(ErrorCode::argument, "y", x, {});
  rejects(ErrorCode::overlap, "y", TensorView(y.values<float>().data(), {2, 5, 4}), y);
  rejects(ErrorCode::argument, "x", x.view().transposed(0, 1).slice(0, 0, 2), y);
  laws::expect_error(ErrorCode::shape, {"d_y"}, [&] { backward(layer, x, narrow, d_x, run); });
  laws::expect_error(ErrorCode::shape, {"d_x"}, [&] { backward(layer, x, y, narrow, run); });
  laws::expect_error(ErrorCode::overlap, {"d_x"}, [&] { backward(layer, x, y, x, run); });
  layer.groups = 5;
  laws::expect_error(ErrorCode::argument, {"Conv1d"}, [&] { forward(layer, x, y, run); });
  nn::Arena small;
  layer.groups = 1;
  forward(layer, x, y, {.scratch = small, .context = {}});
  std::vector<std::byte> too_little(small.bytes() / 2);
  nn::Arena less{too_little};
  laws::expect_error(ErrorCode::argument, {},
                     [&] { forward(layer, x, y, {.scratch = less, .context = {}}); });
}

}  // namespace
