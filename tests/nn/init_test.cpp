#include "rapt/nn/init.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "check/reference/philox.h"
#include "nn/gradient_check.h"
#include "rapt/nn/linear.h"
#include "support/executors.h"
#include "support/expect_error.h"

namespace {

using namespace rapt;
using laws::expect_error;
using nn::Init;

// The hash of the bytes of a tensor.
uint64_t hash_of(const Tensor& t) {
  uint64_t hash = 0xCBF29CE484222325;
  const auto* bytes = static_cast<const unsigned char*>(t.data());
  for (int64_t i = 0; i < t.count() * size_of(t.dtype()); ++i)
    hash = (hash ^ bytes[i]) * 0x100000001B3;
  return hash;
}

Tensor drawn(DType dtype, int64_t count, const Init& init, uint64_t seed = 7,
             std::string_view name = "weight", const Context& context = {}) {
  Tensor t(dtype, {count});
  nn::draw(t, init, seed, name, context);
  return t;
}

// As init.h defines it.
double documented_u(uint64_t seed, uint64_t stream, uint64_t i) {
  const auto half = [](uint64_t x, int upper) { return static_cast<uint32_t>(x >> 32 * upper); };
  const check::FourNumbers words =
      check::philox4x32_10({half(i / 2, 0), half(i / 2, 1), half(stream, 0), half(stream, 1)},
                           {half(seed, 0), half(seed, 1)});
  const uint64_t word = words[i % 2 * 2] | uint64_t{words[i % 2 * 2 + 1]} << 32;
  return static_cast<double>(2 * (word >> 12) + 1) * 0x1p-53;
}
constexpr uint64_t kStreamOfWeight = 0x6911f8de1f27bf19;  // FNV-1a of "weight"

TEST(InitTest, UniformNumbersAreThoseOfTheirDefinition) {
  const uint64_t seed = 0x123456789ABCDEF;
  const Tensor t = drawn(DType::f64, 1001, Init::uniform(0.3), seed);
  for (uint64_t i = 0; i < 1001; ++i)
    ASSERT_EQ(t.values<double>()[i], 0.3 * (2 * documented_u(seed, kStreamOfWeight, i) - 1)) << i;
}

// A quantile x of u is where the distribution function is u.
TEST(InitTest, NormalNumbersAreQuantiles) {
  const uint64_t seed = 3;
  const Tensor t = drawn(DType::f64, 200000, Init::normal(), seed);
  double furthest = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const double x = t.values<double>()[i], u = documented_u(seed, kStreamOfWeight, i);
    const long double tail = std::erfc(std::abs(static_cast<long double>(x)) / std::sqrt(2.0L)) / 2;
    const auto expected = static_cast<long double>(x < 0 ? u : 1 - u);
    // A relative error e of x changes the tail by a factor of about 1 + e x^2.
    ASSERT_NEAR(static_cast<double>(tail / expected), 1, 1e-15 * (2 + x * x)) << u;
    furthest = std::max(furthest, std::abs(x));
  }
  EXPECT_GT(furthest, 4);
}

TEST(InitTest, HasTheMomentsOfItsDistributions) {
  const int64_t n = 1 << 20;
  const Tensor uniform = drawn(DType::f32, n, Init::uniform(2));
  const Tensor normal = drawn(DType::f32, n, Init::normal(0.5));
  const auto moment = [n](const Tensor& t, int power) {
    double sum = 0;
    for (const float x : t.values<float>()) sum += std::pow(x, power);
    return sum / static_cast<double>(n);
  };
  // Five standard deviations of a mean of n numbers.
  EXPECT_NEAR(moment(uniform, 1), 0, 5 * 2 / std::sqrt(3.0) / 1024);
  EXPECT_NEAR(moment(uniform, 2), 4.0 / 3, 5 * 1.2 / 1024);
  EXPECT_NEAR(moment(normal, 1), 0, 5 * 0.5 / 1024);
  EXPECT_NEAR(moment(normal, 2), 0.25, 5 * std::sqrt(2) / 4 / 1024);
  EXPECT_NEAR(moment(normal, 3), 0, 5 * std::sqrt(15) / 8 / 1024);
  EXPECT_NEAR(moment(normal, 4), 3.0 / 16, 5 * std::sqrt(96) / 16 / 1024);
  double product = 0;  // neighbours are uncorrelated
  for (size_t i = 0; i + 1 < static_cast<size_t>(n); ++i)
    product += normal.values<float>()[i] * normal.values<float>()[i + 1];
  EXPECT_NEAR(product / static_cast<double>(n), 0, 5 * 0.25 / 1024);
}

// The same on every machine and instruction set. The numbers are those of a program in Python that
// follows init.h, with the rational functions of CPython's statistics.NormalDist.
TEST(InitTest, HasTheNumbersOfEveryMachine) {
  const Tensor normal = drawn(DType::f64, 4, Init::normal());
  const double expected[] = {-0x1.06124be721362p-1, -0x1.9340ac6e698b5p-2, -0x1.1452b2d148023p+0,
                             0x1.3bacee9addf6dp-2};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(normal.values<double>()[i], expected[i]) << i;
  EXPECT_EQ(hash_of(drawn(DType::f64, 100000, Init::normal())), 0x1b5f321474bc618e);
  EXPECT_EQ(hash_of(drawn(DType::f32, 100000, Init::normal(0.02))), 0x6416f953a6205ef9);
  EXPECT_EQ(hash_of(drawn(DType::f32, 1000, Init::uniform(0.1))), 0x23d133017778851e);
  EXPECT_EQ(hash_of(drawn(DType::bf16, 1000, Init::normal())), 0x7cba2dce8e6c2504);
  EXPECT_EQ(hash_of(drawn(DType::f16, 1000, Init::uniform(0.1))), 0x7ae226ac169a5bd9);
}

TEST(InitTest, NumbersDependOnSeedNameAndIndexAlone) {
  const Tensor t = drawn(DType::f32, 30011, Init::normal());
  const Tensor longer = drawn(DType::f32, 40000, Init::normal());
  EXPECT_EQ(std::memcmp(t.data(), longer.data(), 30011 * sizeof(float)), 0);
  EXPECT_NE(hash_of(t), hash_of(drawn(DType::f32, 30011, Init::normal(), 8)));
  EXPECT_NE(hash_of(t), hash_of(drawn(DType::f32, 30011, Init::normal(), 7, "bias")));
  check::Random random(1);
  for (const int threads : {1, 2, 5})
    EXPECT_EQ(hash_of(drawn(DType::f32, 30011, Init::normal(), 7, "weight", {.threads = threads})),
              hash_of(t));
  laws::for_each_executor(random, [&](const Context& context) {
    EXPECT_EQ(hash_of(drawn(DType::f32, 30011, Init::normal(), 7, "weight", context)), hash_of(t));
  });
}

// nn.Linear: all numbers within 1 / sqrt(in_features), and up to it.
TEST(InitTest, DrawsLayersByTheirRules) {
  nn::Linear layer = nn::make_linear(400, 300);
  nn::initialize(layer, 1, {}, "block.");
  for (const nn::Parameter* p : {&layer.weight, &layer.bias}) {
    float largest = 0;
    for (const float x : p->value.values<float>()) largest = std::max(largest, std::abs(x));
    EXPECT_LE(largest, 0.05f);
    EXPECT_GT(largest, 0.049f);
  }
  Tensor weight(DType::f32, {300, 400});
  nn::draw(weight, Init::uniform(0.05), 1, "block.weight");
  EXPECT_EQ(hash_of(weight), hash_of(layer.weight.value));
}

TEST(InitTest, RulesOfShapesAndScales) {
  const auto largest = [](std::initializer_list<int64_t> shape, const Init& init) {
    nn::Parameter p = nn::make_parameter(DType::f64, shape, init);
    nn::NamedParameter one{"x", &p};
    nn::initialize(std::span<const nn::NamedParameter>(&one, 1), 5);
    double most = 0;
    for (const double x : p.value.values<double>()) most = std::max(most, std::abs(x));
    return most;
  };
  EXPECT_NEAR(largest({4000, 4, 4}, {}), 0.25, 1e-4);  // fan_in = 16
  EXPECT_EQ(largest({4000}, {}), 0);
  EXPECT_EQ(largest({40, 40}, Init::keep()), 0);
  EXPECT_EQ(largest({0, 40}, {}), 0);
  EXPECT_EQ(largest({40, 0}, {}), 0);
  EXPECT_NEAR(largest({40000}, Init::fan_in_uniform(25)), 0.2, 1e-4);
  EXPECT_EQ(Init::fan_in_uniform(0).scale, 0);
  EXPECT_EQ(Init::xavier_uniform(10, 14).scale, 0.5);
  EXPECT_EQ(Init::xavier_uniform(10, 14, 3).scale, 1.5);
  EXPECT_EQ(Init::kaiming_uniform(24).scale, 0.5);
  EXPECT_NEAR(Init::kaiming_uniform(16, std::sqrt(5)).scale, 0.25, 1e-16);
  EXPECT_EQ(Init::kaiming_uniform(0).scale, 0);
}

TEST(InitTest, Rejects) {
  for (const double bad : {-1.0, double{NAN}, HUGE_VAL}) {
    expect_error(ErrorCode::argument, {"scale"}, [&] { Init::uniform(bad); });
    expect_error(ErrorCode::argument, {"scale"}, [&] { Init::normal(bad); });
    expect_error(ErrorCode::argument, {"scale"},
                 [&] { drawn(DType::f32, 3, {.rule = Init::Rule::normal, .scale = bad}); });
    expect_error(ErrorCode::argument, {"scale"}, [&] { Init::xavier_uniform(3, 3, bad); });
  }
  expect_error(ErrorCode::argument, {"scale"}, [] { Init::kaiming_uniform(3, NAN); });
  expect_error(ErrorCode::argument, {"fan-in"}, [] { Init::fan_in_uniform(-1); });
  expect_error(ErrorCode::argument, {"fan-out"}, [] { Init::xavier_uniform(1, -1); });
  expect_error(ErrorCode::dtype, {"weight", "i64"}, [] { drawn(DType::i64, 3, Init::normal()); });
  Tensor t(DType::f32, {4, 4});
  expect_error(ErrorCode::argument, {"x", "dense"},
               [&] { nn::draw(t.view().transposed(), Init::normal(), 1, "x"); });
  expect_error(ErrorCode::argument, {"read-only"},
               [&] { nn::draw(std::as_const(t).view(), Init::normal(), 1, "x"); });

  // Nothing is drawn if one parameter has a wrong rule.
  nn::Linear layer = nn::make_linear(3, 2);
  layer.bias.init.scale = NAN;
  expect_error(ErrorCode::argument, {"scale"}, [&] { nn::initialize(layer, 1); });
  for (const float x : layer.weight.value.values<float>()) EXPECT_EQ(x, 0);
}

}  // namespace
