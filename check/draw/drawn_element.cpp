#include "check/draw/drawn_element.h"

#include <algorithm>
#include <limits>

namespace check {
namespace {

// Large against all other numbers, and so small that no product of two of them overflows.
double huge_number(DType dtype) {
  return dtype == DType::f16 ? 6e4 : dtype == DType::f64 ? 1e100 : 1e15;
}

DType dtype_of(const Descriptor& d, InputTensor tensor) {
  switch (tensor) {
    case InputTensor::bias:
      return d.bias_dtype.value_or(d.dtype);
    case InputTensor::d_output:
      return d.output_dtype.value_or(d.dtype);
    case InputTensor::d_lse:
    case InputTensor::d_weights:
      return d.dtype == DType::f64 ? DType::f64 : DType::f32;
    default:
      return d.dtype;
  }
}

}  // namespace

bool has_elements(const Descriptor& problem, InputTensor tensor) {
  const Dims dims = dims_of(tensor, problem);
  return !dims.empty() && std::ranges::find(dims, 0) == dims.end();
}

ElementSpec drawn_element(const Descriptor& problem, InputTensor tensor, std::string_view kind,
                          Random& random) {
  ElementSpec element;
  element.tensor = tensor;
  for (const int64_t length : dims_of(tensor, problem)) {
    // Masks often hide the last keys from all queries, and the first ones from none.
    const int64_t at = random.between(0, length - 1);
    element.index.push_back(random.pick({at, at, int64_t{0}, length - 1}));
  }
  element.whole_row = random.chance(0.3);
  if (element.whole_row) element.index.back() = 0;
  const double sign = random.chance(0.5) ? 1 : -1;
  element.value = kind == "NaN"        ? std::numeric_limits<double>::quiet_NaN()
                  : kind == "infinity" ? sign * std::numeric_limits<double>::infinity()
                                       : sign * huge_number(dtype_of(problem, tensor));
  return element;
}

}  // namespace check
