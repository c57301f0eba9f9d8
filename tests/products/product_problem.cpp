#include "products/product_problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string_view>

#include "check/tolerance/two_parts.h"

namespace laws {
namespace {

using rapt::Activation;
using rapt::Precision;

// The plain loop. Real: the type of the computation, or the next larger one.
template <class Real>
struct Loop {
  // The sum over k of a[k] b[k]; `size` becomes the sum of the absolute values.
  static Real dot(const double* a, int64_t a_step, const double* b, int64_t b_step, int64_t terms,
                  double& size) {
    Real sum = 0;
    size = 0;
    for (int64_t k = 0; k < terms; ++k) {
      const double x = a[k * a_step], w = b[k * b_step];
      sum += static_cast<Real>(x) * static_cast<Real>(w);
      size += std::abs(x * w);
    }
    return sum;
  }

  static Real logistic(Real a) { return 1 / (1 + std::exp(-a)); }
  static Real tanh_argument(Real z) {
    return static_cast<Real>(1.59576912160573071176L) * z *
           (1 + static_cast<Real>(0.044715L) * z * z);
  }
  static Real activate(Activation activation, Real z) {
    switch (activation) {
      case Activation::none:
        return z;
      case Activation::relu:
        return z > 0 || std::isnan(z) ? z : 0;
      case Activation::gelu:
        return z / 2 * std::erfc(-z * static_cast<Real>(0.70710678118654752440L));
      case Activation::gelu_tanh:
        return z * logistic(tanh_argument(z));
      case Activation::silu:
        return z * logistic(z);
    }
    return z;
  }
};

double argument_error(Activation activation, double z) {
  double a = z;
  if (activation == Activation::gelu_tanh)
    a = Loop<double>::tanh_argument(z);
  else if (activation != Activation::silu)
    return 0;
  const double s = Loop<double>::logistic(a);
  return 3 * std::abs(a * z) * s * (1 - s);
}

// Numbers of a result, element by element.
struct Collected {
  check::Expectation* into;
  DType stored;
  double epsilon;

  template <class Plain>
  void add(long double truth, Plain plain, double floor) {
    into->truth.push_back(truth);
    into->plain.push_back(static_cast<long double>(plain));
    const double size = std::abs(static_cast<double>(truth));
    into->floor.push_back(floor + check::unit_roundoff(stored) * size +
                          check::smallest_denormal(stored) / 2);
  }
};

// A side of a product as numbers, with the steps to the next row (column) and the next term.
struct Side {
  std::vector<double> numbers;
  int64_t outer_step, term_step;
};

template <class Plain, class Wide>
std::vector<check::Expectation> expect(const DrawnProduct& p) {
  const double e = std::numeric_limits<Plain>::epsilon();
  const bool forward = p.product == Product::forward, d_x = p.product == Product::input_gradient;
  const int64_t in = p.in_features, out = p.out_features;
  Side left = forward ? Side{values_of(p.x), in, 1}
              : d_x   ? Side{values_of(p.y), out, 1}
                      : Side{values_of(p.y), 1, out};
  Side right = forward ? Side{values_of(p.weight), in, 1}
               : d_x   ? Side{values_of(p.weight), 1, in}
                       : Side{values_of(p.x), 1, in};
  const int64_t rows = forward || d_x ? p.rows : out, columns = forward ? out : in,
                terms = forward ? in
                        : d_x   ? out
                                : p.rows;
  const double left_out = left_out_of(
      (forward ? p.x : p.y).view().dtype,
      (p.product == Product::weight_gradient ? p.x : p.weight).view().dtype, p.precision);
  std::vector<check::Expectation> all;
  const auto collected = [&](const Placed& output) {
    all.emplace_back();
    return Collected{&all.back(), output.view().dtype, e};
  };
  all.reserve(2);
  if (p.product != Product::weight_gradient || p.has_weight) {
    const std::vector<double> bias = p.has_bias ? values_of(p.bias) : std::vector<double>();
    const bool add = p.add || p.product == Product::weight_gradient, biased = forward && p.has_bias;
    const std::vector<double> old = add ? values_of(p.output()) : std::vector<double>();
    Collected result = collected(p.output());
    std::optional<Collected> before;
    if (p.has_before) before = collected(p.before);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < columns; ++c) {
        const double *a = left.numbers.data() + r * left.outer_step,
                     *b = right.numbers.data() + c * right.outer_step;
        double size;
        auto plain = Loop<Plain>::dot(a, left.term_step, b, right.term_step, terms, size);
        auto truth = Loop<Wide>::dot(a, left.term_step, b, right.term_step, terms, size);
        double floor = left_out * size;
        if (biased) {
          const double x = bias[static_cast<size_t>(c)];
          plain += static_cast<Plain>(x), truth += static_cast<Wide>(x), size += std::abs(x);
        }
        floor += e * size;
        if (before) before->add(truth, plain, floor);
        if (p.activation != Activation::none) {
          const auto z = static_cast<double>(truth);
          plain = Loop<Plain>::activate(p.activation, plain);
          truth = Loop<Wide>::activate(p.activation, truth);
          floor = 1.2 * floor + e * argument_error(p.activation, z) +
                  4 * e * std::abs(static_cast<double>(truth)) +
                  4 * static_cast<double>(std::numeric_limits<Plain>::min()) * (1 + std::abs(z));
        }
        if (add) {
          const double x = old[static_cast<size_t>(r * columns + c)];
          floor += e / 2 * (std::abs(static_cast<double>(truth)) + std::abs(x));
          plain += static_cast<Plain>(x), truth += static_cast<Wide>(x);
        }
        result.add(truth, plain, floor);
      }
  }
  if (p.product == Product::weight_gradient && p.has_bias) {
    const std::vector<double> old = values_of(p.bias);
    const std::vector<double> ones(static_cast<size_t>(terms), 1);
    Collected result = collected(p.bias);
    for (int64_t r = 0; r < rows; ++r) {
      const double *a = left.numbers.data() + r, x = old[static_cast<size_t>(r)];
      double size;
      const auto plain = Loop<Plain>::dot(a, out, ones.data(), 1, terms, size);
      const auto truth = Loop<Wide>::dot(a, out, ones.data(), 1, terms, size);
      result.add(truth + static_cast<Wide>(x), plain + static_cast<Plain>(x),
                 e * (size + std::abs(x)));
    }
  }
  return all;
}

}  // namespace

Placed::Placed(const TensorView& values, bool transposed, Gaps gaps, bool reversed) {
  const int rank = values.rank;
  const bool gap_of[2] = {gaps == Gaps::rows || gaps == Gaps::everywhere,
                          gaps == Gaps::columns || gaps == Gaps::everywhere};
  view_ = values;
  view_.read_only = false;
  int64_t step = 1, first = 0;
  for (int n = 0; n < rank; ++n) {
    const int i = transposed ? n : rank - 1 - n;
    const bool inner = n == 0;
    if (inner && gap_of[1]) step = 2;
    view_.strides[i] = reversed ? -step : step;
    if (reversed && values.shape[i] > 0) first += step * (values.shape[i] - 1);
    step *= std::max<int64_t>(values.shape[i], 1);
    if (inner && gap_of[0]) step += 3;
  }
  const auto size = static_cast<size_t>(rapt::size_of(values.dtype));
  memory_.assign(static_cast<size_t>(step + 1) * size, std::byte{0xff});
  view_.data = memory_.data() + static_cast<size_t>(first) * size;
  for_each_index(values.dims(), [&](auto index) { set(view_, index, get(values, index)); });
}

Placed Placed::drawn(Random& random, const TensorView& values) {
  if (random.chance(0.4)) return Placed(values, false, Gaps::none, false);
  return Placed(values, random.chance(0.4),
                random.pick({Gaps::none, Gaps::rows, Gaps::columns, Gaps::everywhere}),
                random.chance(0.3));
}

Placed Placed::repeated(const TensorView& values, int dim) {
  Placed placed(values.shape[dim] > 0 ? values.slice(dim, 0, 1) : values, false, Gaps::none, false);
  placed.view_.shape[dim] = values.shape[dim];
  placed.view_.strides[dim] = 0;
  return placed;
}

bool Placed::gaps_untouched() const {
  const int64_t size = rapt::size_of(view_.dtype);
  std::vector<char> element(memory_.size(), 0);
  for_each_index(view_.dims(), [&](auto index) {
    int64_t offset = static_cast<const std::byte*>(view_.data) - memory_.data();
    for (int i = 0; i < view_.rank; ++i)
      offset += index[static_cast<size_t>(i)] * view_.strides[i] * size;
    std::fill_n(element.begin() + offset, size, 1);
  });
  for (size_t i = 0; i < memory_.size(); ++i)
    if (!element[i] && memory_[i] != std::byte{0xff}) return false;
  return true;
}

DrawnProduct::DrawnProduct(Random& random, Product drawn, int64_t row_count, int64_t in,
                           int64_t out, bool f64)
    : product(drawn), rows(row_count), in_features(in), out_features(out) {
  const DType one = random.pick({DType::f32, DType::bf16, DType::f16});
  const bool mixed = random.chance(0.5);
  const auto dtype = [&] {
    return f64 ? DType::f64 : mixed ? random.pick({DType::f32, DType::bf16, DType::f16}) : one;
  };
  const double magnitude = random.pick({1.0, 1.0, 0.01, 4.0});
  const auto place = [&](const Dims& dims, DType type, bool input) {
    const Tensor values = random_normal(random, type, dims, input ? magnitude : 1);
    if (input && random.chance(0.05))
      return Placed::repeated(values, static_cast<int>(random.between(0, values.rank() - 1)));
    return Placed::drawn(random, values);
  };
  const bool forward = drawn == Product::forward;
  x = place({rows, in}, dtype(), drawn != Product::input_gradient);
  weight = place({out, in}, dtype(), drawn != Product::weight_gradient);
  const DType y_type = dtype();
  y = place({rows, out}, y_type, !forward);
  has_bias = drawn != Product::input_gradient && random.chance(0.5);
  if (has_bias) bias = place({out}, dtype(), forward);
  has_weight = drawn != Product::weight_gradient || !has_bias || random.chance(0.8);
  add = drawn != Product::weight_gradient && random.chance(0.3);
  if (random.chance(0.5)) precision = random.pick({Precision::fma, Precision::fast});
  if (!forward) return;
  if (random.chance(0.5))
    activation =
        random.pick({Activation::relu, Activation::gelu, Activation::gelu_tanh, Activation::silu});
  has_before = random.chance(0.3);
  if (has_before) before = place({rows, out}, y_type, false);
}

std::string DrawnProduct::text() const {
  std::ostringstream text;
  text << kProductNames[static_cast<int>(product)] << " " << rows << "x" << in_features << "->"
       << out_features;
  const auto tensor = [&](const char* name, const Placed& placed) {
    const TensorView& view = placed.view();
    text << ", " << name << " " << rapt::name_of(view.dtype) << " by";
    for (int i = 0; i < view.rank; ++i) text << " " << view.strides[i];
  };
  tensor("x", x), tensor("weight", weight), tensor("y", y);
  if (has_bias) tensor("bias", bias);
  if (has_before) tensor("before", before);
  text << ", activation " << static_cast<int>(activation) << (add ? ", add" : "")
       << (has_weight ? "" : ", bias alone") << ", "
       << rapt::kPrecisionNames[static_cast<int>(precision)];
  return text.str();
}

void DrawnProduct::call(const Context& context, std::span<std::byte> workspace) const {
  const TensorView b = has_bias ? bias.view() : TensorView();
  switch (product) {
    case Product::forward: {
      rapt::ProductOptions options{
          .bias = b, .activation = activation, .add = add, .precision = precision};
      if (has_before) options.before_activation = before;
      return rapt::multiply(x, weight, y, options, context, workspace);
    }
    case Product::input_gradient:
      return rapt::multiply_gradient(y, weight, x, add, context, workspace, precision);
    case Product::weight_gradient:
      return rapt::add_weight_gradient(y, x, has_weight ? weight.view() : TensorView(), b, context,
                                       workspace, precision);
  }
}

size_t DrawnProduct::workspace_bytes(const Context& context) const {
  return rapt::product_workspace_bytes(rows, in_features, out_features, computed(), context);
}

std::vector<const Placed*> DrawnProduct::outputs() const {
  std::vector<const Placed*> all;
  if (has_weight) all.push_back(&output());
  if (has_before) all.push_back(&before);
  if (product == Product::weight_gradient && has_bias) all.push_back(&bias);
  return all;
}

double left_out_of(DType left, DType right, Precision precision) {
  const std::string_view kernel = rapt::product_kernel(left, right, precision);
  if (!kernel.starts_with("tile registers") || left == DType::bf16) return 0;
  if (precision == Precision::fast) return check::left_out_of_two_parts(left).rows;
  return left == DType::f16 ? 0 : 2 * 0x1p-8 * 0x1p-16 + 0x1p-32;
}

std::vector<check::Expectation> expectations_of(const DrawnProduct& product) {
  return product.computed() == DType::f64 ? expect<double, long double>(product)
                                          : expect<float, double>(product);
}

int64_t drawn_size(Random& random, int64_t most) {
  if (random.chance(0.04)) return 0;
  const int64_t size =
      random.chance(0.5) ? random.between(1, 40)
                         : random.pick<int64_t>({1,   6,   8,   9,   16,  64,  95,  96,   97,  128,
                                                 192, 193, 255, 256, 257, 300, 383, 384,  385, 512,
                                                 513, 767, 768, 769, 959, 960, 961, 1537, 2000});
  return std::min(size, most);
}

}  // namespace laws
