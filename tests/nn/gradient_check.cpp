#include "nn/gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "support/sanitizers.h"

namespace nn_tests {
namespace {

double element(const rapt::Tensor& t, int64_t i) {
  using rapt::DType;
  const auto at = static_cast<size_t>(i);
  switch (t.dtype()) {
    case DType::f32:
      return t.values<float>()[at];
    case DType::f64:
      return t.values<double>()[at];
    case DType::bf16:
      return static_cast<float>(t.values<rapt::BFloat16>()[at]);
    default:
      return static_cast<float>(t.values<rapt::Float16>()[at]);
  }
}

void set_element(rapt::Tensor& t, int64_t i, double x) {
  using rapt::DType;
  const auto at = static_cast<size_t>(i);
  switch (t.dtype()) {
    case DType::f32:
      t.values<float>()[at] = static_cast<float>(x);
      break;
    case DType::f64:
      t.values<double>()[at] = x;
      break;
    case DType::bf16:
      t.values<rapt::BFloat16>()[at] = rapt::BFloat16::from(x);
      break;
    default:
      t.values<rapt::Float16>()[at] = rapt::Float16::from(x);
      break;
  }
}

// SplitMix64 and Box-Muller: standard distributions differ between libraries.
class Normal {
 public:
  explicit Normal(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15u + 1) {}
  double operator()() {
    const double u = uniform(), v = uniform();
    return std::sqrt(-2 * std::log(1 - u)) * std::cos(6.283185307179586 * v);
  }

 private:
  double uniform() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  }
  uint64_t state_;
};

}  // namespace

void expect_gradients(const std::vector<Checked>& checked, const std::function<double()>& loss,
                      int most, double tolerance) {
  // Sanitizers look at memory, which the first elements of a tensor show as well as all others.
  if (RAPT_SANITIZED) most = std::min(most, 2);
  std::mt19937_64 random(1);
  for (const auto& [name, value, gradient] : checked) {
    ASSERT_EQ(value->dtype(), rapt::DType::f64) << name;
    const auto values = value->values<double>();
    const auto found = gradient->values<double>();
    ASSERT_EQ(values.size(), found.size()) << name;
    double largest = 1e-3;
    for (const double g : found) largest = std::max(largest, std::abs(g));
    for (int i = 0; i < most && !values.empty(); ++i) {
      const size_t at = static_cast<size_t>(most) >= values.size()
                            ? static_cast<size_t>(i)
                            : static_cast<size_t>(random() % values.size());
      if (at >= values.size()) break;
      const double x = values[at], unit = std::max(1.0, std::abs(x));
      const auto difference = [&](double h) {
        const auto at_offset = [&](double offset) {
          values[at] = x + offset;
          return loss();
        };
        const double near = at_offset(h) - at_offset(-h);
        const double far = at_offset(2 * h) - at_offset(-2 * h);
        values[at] = x;
        return (8 * near - far) / (12 * h);
      };
      double expected = difference(1e-3 * unit);
      // A kink may lie within the step: rarely within one that is a hundredth.
      if (!(std::abs(found[at] - expected) <= tolerance * largest))
        expected = difference(1e-5 * unit);
      EXPECT_NEAR(found[at], expected, tolerance * largest) << name << "[" << at << "]";
    }
  }
}

void fill_normal(rapt::Tensor& tensor, uint64_t seed, double spread) {
  Normal draw(seed);
  for (int64_t i = 0; i < tensor.count(); ++i) set_element(tensor, i, spread * draw());
}

rapt::Tensor normal(rapt::DType dtype, std::vector<int64_t> shape, uint64_t seed, double spread) {
  rapt::Tensor t(dtype, rapt::Shape(shape));
  fill_normal(t, seed, spread);
  return t;
}

double dot(const rapt::Tensor& a, const rapt::Tensor& b) {
  double sum = 0;
  for (int64_t i = 0; i < a.count(); ++i) sum += element(a, i) * element(b, i);
  return sum;
}

}  // namespace nn_tests
