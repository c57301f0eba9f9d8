#include "rapt/nn/state_dict.h"

#include <gtest/gtest.h>

#include <cmath>

#include "nn/gradient_check.h"
#include "rapt/nn/linear.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using namespace nn_tests;
using laws::expect_error;
using nn::NamedView;

struct TwoLinears {
  nn::Linear first, second;
  template <class Self, class F>
  static void members(Self& layer, const F& f) {
    f("first", layer.first);
    f("second", layer.second);
  }
};
TwoLinears two_linears(DType dtype, uint64_t seed) {
  TwoLinears layer{nn::make_linear(3, 2, true, dtype), nn::make_linear(2, 2, false, dtype)};
  if (seed) draw_parameters(layer, seed);
  return layer;
}

template <class Layer>
std::vector<double> all_values(Layer& layer) {
  std::vector<double> all;
  for (const NamedView& t : nn::state_dict(layer)) {
    Tensor wide(DType::f64, t.view.dims());
    nn::load_tensors(std::vector<NamedView>{{"x", wide}}, std::vector<NamedView>{{"x", t.view}});
    for (const double x : wide.values<double>()) all.push_back(x);
  }
  return all;
}

TEST(StateDictTest, NamesParameters) {
  TwoLinears layer = two_linears(DType::f32, 1);
  const auto dict = nn::state_dict(layer, "a.");
  ASSERT_EQ(dict.size(), 3u);
  EXPECT_EQ(dict[0].name, "a.first.weight");
  EXPECT_EQ(dict[1].name, "a.first.bias");
  EXPECT_EQ(dict[2].name, "a.second.weight");
  EXPECT_EQ(dict[0].view.data, layer.first.weight.value.data());
  EXPECT_FALSE(dict[0].view.read_only);
  EXPECT_TRUE(nn::state_dict(std::as_const(layer))[0].view.read_only);
}

TEST(StateDictTest, RoundTrip) {
  const TwoLinears from = two_linears(DType::f32, 1);
  TwoLinears to = two_linears(DType::f32, 0);
  auto dict = nn::state_dict(from);
  std::reverse(dict.begin(), dict.end());
  const nn::LoadReport report = nn::load_state_dict(to, dict);
  EXPECT_TRUE(report.missing.empty() && report.additional.empty());
  EXPECT_EQ(all_values(from), all_values(to));
  nn::load_state_dict(to, nn::state_dict(to));  // itself
  EXPECT_EQ(all_values(from), all_values(to));
}

// A struct like NamedTensor of rapt::io.
struct OtherNamed {
  std::string name;
  TensorView view;
};
TEST(StateDictTest, TakesAnyStructOfNameAndView) {
  const TwoLinears from = two_linears(DType::f32, 1);
  TwoLinears to = two_linears(DType::f32, 0);
  nn::load_state_dict(to, nn::state_dict<OtherNamed>(from));
  EXPECT_EQ(all_values(from), all_values(to));
}

TEST(StateDictTest, PrefixSelectsALayerOfAModel) {
  const TwoLinears from = two_linears(DType::f32, 1);
  nn::Linear second = nn::make_linear(2, 2, false);
  nn::load_state_dict(second, nn::state_dict(from, "model."), {.prefix = "model.second."});
  const std::vector<double> all = all_values(from);
  EXPECT_EQ(all_values(second), std::vector(all.end() - 4, all.end()));
  expect_error(ErrorCode::argument, {"missing: model.weight"}, [&] {
    nn::load_state_dict(second, nn::state_dict(from, "model."), {.prefix = "model."});
  });
}

template <class From, class To>
void expect_conversion(const std::function<To(From)>& expected) {
  const double numbers[] = {0,
                            -0.0,
                            1,
                            -1.5,
                            1.0 / 3,
                            65519,
                            65520,
                            1e-7,
                            3e-8,
                            1e30,
                            -INFINITY,
                            1 + 0x1p-8 + 0x1p-30,
                            1 + 0x1p-11 + 0x1p-40};
  for (const double x : numbers) {
    Tensor from(dtype_of<From>(), {1}), to(dtype_of<To>(), {1});
    if constexpr (std::is_floating_point_v<From>)
      from.values<From>()[0] = static_cast<From>(x);
    else
      from.values<From>()[0] = From::from(x);
    nn::load_tensors(std::vector<NamedView>{{"x", to}}, std::vector<NamedView>{{"x", from}});
    const To wanted = expected(from.values<From>()[0]);
    EXPECT_EQ(std::memcmp(to.data(), &wanted, sizeof(To)), 0)
        << name_of(from.dtype()) << " to " << name_of(to.dtype()) << ": " << x;
  }
}

TEST(StateDictTest, ConvertsWithOneRounding) {
  expect_conversion<double, float>([](double x) { return static_cast<float>(x); });
  expect_conversion<double, BFloat16>([](double x) { return BFloat16::from(x); });
  expect_conversion<double, Float16>([](double x) { return Float16::from(x); });
  expect_conversion<float, double>([](float x) { return static_cast<double>(x); });
  expect_conversion<float, BFloat16>([](float x) { return BFloat16::from(x); });
  expect_conversion<float, Float16>([](float x) { return Float16::from(x); });
  expect_conversion<BFloat16, float>([](BFloat16 x) { return static_cast<float>(x); });
  expect_conversion<BFloat16, double>([](BFloat16 x) { return static_cast<float>(x); });
  expect_conversion<BFloat16, Float16>(
      [](BFloat16 x) { return Float16::from(static_cast<float>(x)); });
  expect_conversion<Float16, float>([](Float16 x) { return static_cast<float>(x); });
  expect_conversion<Float16, BFloat16>(
      [](Float16 x) { return BFloat16::from(static_cast<float>(x)); });
  expect_conversion<Float16, Float16>([](Float16 x) { return x; });
}

TEST(StateDictTest, FollowsStrides) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const Tensor from = normal(DType::f32, {3, 5, 2}, 1);
    Tensor to(dtype, {5, 3, 2});
    nn::load_tensors(std::vector<NamedView>{{"x", to}},
                     std::vector<NamedView>{{"x", from.view().transposed(0, 1)}});
    Tensor expected(dtype, {5, 3, 2}), copy = Tensor::copy_of(from.view().transposed(0, 1));
    nn::load_tensors(std::vector<NamedView>{{"x", expected}}, std::vector<NamedView>{{"x", copy}});
    EXPECT_EQ(std::memcmp(to.data(), expected.data(), static_cast<size_t>(30 * size_of(dtype))), 0);
    EXPECT_EQ(copy.values<float>()[2], from.values<float>()[10]);
  }
  const int64_t number = 5;
  Tensor step(DType::i64, Shape());
  nn::load_tensors(std::vector<NamedView>{{"x", step}},
                   std::vector<NamedView>{{"x", TensorView(&number, {})}});
  EXPECT_EQ(step.values<int64_t>()[0], 5);
}

TEST(StateDictTest, OneErrorNamesEverything) {
  TwoLinears layer = two_linears(DType::f32, 1);
  const auto before = all_values(layer);
  const Tensor right = normal(DType::f32, {2, 3}, 1), turned = normal(DType::f32, {3, 2}, 1);
  Tensor integers(DType::i64, {2});
  const std::vector<NamedView> given = {{"first.weight", turned},
                                        {"first.bias", integers},
                                        {"head.weight", right},
                                        {"b", right},
                                        {"b", right}};
  expect_error(ErrorCode::argument,
               {"missing: second.weight", "additional: b, head.weight", "given twice: b",
                "shape: first.weight is [3, 2], expected [2, 3]",
                "dtype: first.bias is i64, expected f32", "nothing was loaded"},
               [&] { nn::load_state_dict(layer, given); });
  EXPECT_EQ(all_values(layer), before);
  const auto load = [&](const std::vector<NamedView>& some) {
    return [&layer, some] { nn::load_state_dict(layer, some, {.strict = false}); };
  };
  expect_error(ErrorCode::shape, {"first.weight"}, load({{"first.weight", turned}}));
  expect_error(ErrorCode::shape, {"absent"}, load({{"first.weight", TensorView()}}));
  expect_error(ErrorCode::dtype, {"first.bias"}, load({{"first.bias", integers}}));
  expect_error(ErrorCode::argument, {"null"},
               load({{"first.bias", TensorView(static_cast<const float*>(nullptr), {2})}}));
  expect_error(ErrorCode::argument, {"read-only"}, [&] {
    nn::load_tensors(nn::state_dict(std::as_const(layer)), nn::state_dict(layer));
  });
  EXPECT_EQ(all_values(layer), before);
}

TEST(StateDictTest, ReportsInsteadOfRejecting) {
  TwoLinears layer = two_linears(DType::f32, 1);
  const Tensor weight = normal(DType::f32, {2, 3}, 9);
  const nn::LoadReport report = nn::load_state_dict(
      layer, {{"x.first.weight", weight}, {"x.head", weight}}, {.prefix = "x.", .strict = false});
  EXPECT_EQ(report.missing, (std::vector<std::string>{"x.first.bias", "x.second.weight"}));
  EXPECT_EQ(report.additional, std::vector<std::string>{"x.head"});
  EXPECT_EQ(layer.first.weight.value.values<float>()[4], weight.values<float>()[4]);
}

TEST(StateDictTest, RejectsOverlaps) {
  TwoLinears layer = two_linears(DType::f32, 1);
  nn::Linear square = nn::make_linear(2, 2);
  draw_parameters(square, 1);
  const auto before = all_values(square);
  const TensorView weight = square.weight.value.view();
  // The transpose of a tensor into itself, and a part of it into another.
  expect_error(ErrorCode::overlap, {"weight shares memory with weight"}, [&] {
    nn::load_state_dict(square, {{"weight", weight.transposed()}}, {.strict = false});
  });
  const TensorView row(square.weight.value.values<float>().data() + 2, {2});
  expect_error(ErrorCode::overlap, {"bias shares memory with weight"}, [&] {
    nn::load_state_dict(square, {{"bias", row}}, {.strict = false});
  });
  EXPECT_EQ(all_values(square), before);
}

}  // namespace
