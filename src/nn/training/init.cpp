#include "rapt/nn/init.h"

#include <algorithm>
#include <cmath>

#include "nn/dense.h"
#include "nn/row_tasks.h"
#include "nn/training/random_numbers.h"

namespace rapt::nn {
namespace {

// Operations that a number takes, about: Philox, two polynomials and a division.
constexpr double kDrawWork = 2000;
constexpr int64_t kDrawBlock = 256;  // numbers, in f64, on the stack

Init init_of(Init::Rule rule, double scale) {
  if (!(scale >= 0 && std::isfinite(scale)))
    throw Error(ErrorCode::argument, "the scale of initial values is " + std::to_string(scale) +
                                         "; expected a finite number, 0 or more");
  return {.rule = rule, .scale = scale};
}

double checked_fan(const char* name, int64_t fan) {
  if (fan < 0)
    throw Error(ErrorCode::argument,
                std::string(name) + " is " + std::to_string(fan) + "; expected 0 or more");
  return static_cast<double>(fan);
}

// The rule with its scale, where the shape decides it.
Init resolved(const Init& init, const TensorView& values) {
  if (init.rule > Init::Rule::normal)
    throw Error(ErrorCode::argument, "initial values have an unknown rule, " +
                                         std::to_string(static_cast<int>(init.rule)));
  if (init.rule != Init::Rule::by_shape) return init_of(init.rule, init.scale);
  if (values.rank < 2) return Init::keep();
  int64_t fan_in = 1;
  if (!values.empty())
    for (int i = 1; i < values.rank; ++i) fan_in *= values.shape[i];
  return Init::fan_in_uniform(fan_in);
}

uint64_t fnv1a(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return hash;
}

void check_drawn(std::string_view name, const TensorView& values) {
  const std::string text(name);
  in_computed_type(text.c_str(), values.dtype, []<class E>() {});
  check_output(text.c_str(), values, values.dims(), values.dtype);
}

void store_rounded(const TensorView& values, int64_t i, double x) {
  switch (values.dtype) {
    case DType::f64:
      static_cast<double*>(values.data)[i] = x;
      break;
    case DType::f32:
      static_cast<float*>(values.data)[i] = static_cast<float>(x);
      break;
    case DType::bf16:
      static_cast<BFloat16*>(values.data)[i] = BFloat16::from(x);
      break;
    default:
      static_cast<Float16*>(values.data)[i] = Float16::from(x);
  }
}

}  // namespace

Init Init::uniform(double bound) { return init_of(Rule::uniform, bound); }
Init Init::normal(double deviation) { return init_of(Rule::normal, deviation); }
Init Init::fan_in_uniform(int64_t n) {
  const double fan = checked_fan("the fan-in", n);
  return uniform(fan > 0 ? 1 / std::sqrt(fan) : 0);
}
Init Init::xavier_uniform(int64_t fan_in, int64_t fan_out, double gain) {
  const double fans = checked_fan("the fan-in", fan_in) + checked_fan("the fan-out", fan_out);
  return uniform(fans > 0 ? gain * std::sqrt(6 / fans) : 0);
}
Init Init::kaiming_uniform(int64_t fan_in, double negative_slope) {
  const double fan = checked_fan("the fan-in", fan_in) * (1 + negative_slope * negative_slope);
  return uniform(fan > 0 ? std::sqrt(6 / fan) : fan);
}

void draw(const TensorView& values, const Init& init, uint64_t seed, std::string_view name,
          const Context& context) {
  check_drawn(name, values);
  const Init rule = resolved(init, values);
  if (rule.rule == Init::Rule::keep) return;
  const auto function = rule.rule == Init::Rule::normal ? draw_normal : draw_symmetric;
  const uint64_t stream = fnv1a(name);
  const double count = static_cast<double>(values.count());
  for_ranges(context, values.count(), kDrawWork * count, [&](int64_t begin, int64_t end) {
    double numbers[kDrawBlock];
    for (int64_t i = begin; i < end; i += kDrawBlock) {
      const int64_t n = std::min(kDrawBlock, end - i);
      function(seed, stream, i, i + n, numbers);
      for (int64_t j = 0; j < n; ++j) store_rounded(values, i + j, rule.scale * numbers[j]);
    }
  });
}

void initialize(std::span<const NamedParameter> parameters, uint64_t seed, const Context& context) {
  for (const auto& [name, p] : parameters) {
    check_drawn(name, p->value.view());
    resolved(p->init, p->value.view());
  }
  for (const auto& [name, p] : parameters) draw(p->value.view(), p->init, seed, name, context);
}

}  // namespace rapt::nn
