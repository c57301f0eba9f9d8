#include "attention/call/learned_parameters.h"

#include <cmath>
#include <string>

#include "rapt/head_numbers.h"

namespace rapt {
namespace {

bool has_numbers(const Parameter& parameter, const void* object) {
  return (parameter.type == ParameterType::real && !std::isnan(parameter.get(object).real)) ||
         (parameter.own_rank >= 0 && parameter.get(object).tensor.defined());
}

// The number of elements in the dimensions from `first` on.
int64_t count_from(const TensorView& tensor, int first) {
  int64_t count = 1;
  for (int d = first; d < tensor.rank; ++d) count *= tensor.shape[d];
  return count;
}

int64_t own_count(const Parameter& parameter, const void* object) {
  if (parameter.type == ParameterType::real) return 1;
  const TensorView tensor = parameter.get(object).tensor;
  return count_from(tensor, tensor.rank - parameter.own_rank);
}

[[noreturn]] void fail(ErrorCode code, const Variant& variant, const std::string& message) {
  throw Error(code, std::string(variant.kind) + " " + variant.declaration->name + ": " + message);
}

// A parameter without bounds accepts any number, including NaN.
void check_range(const Parameter& parameter, const TensorView& tensor, const Variant& variant) {
  const auto [min, max] = parameter.range;
  if (min == kAnyNumber.min && max == kAnyNumber.max) return;
  for (int64_t nth = 0, count = tensor.count(); nth < count; ++nth) {
    int64_t offset = 0, rest = nth;
    for (int d = tensor.rank; d-- > 0; rest /= tensor.shape[d])
      offset += rest % tensor.shape[d] * tensor.strides[d];
    const double number = number_at(tensor, offset);
    if (!(number >= min && number <= max))
      fail(ErrorCode::argument, variant,
           described(parameter.name, tensor) + " has " + std::to_string(number) + " at " +
               std::to_string(nth) + "; expected numbers from " + std::to_string(min) + " to " +
               std::to_string(max));
  }
}

}  // namespace

int64_t count_parameters_of(const Variant& variant) {
  int64_t count = 0;
  for (const Parameter& parameter : variant.declaration->parameters)
    if (has_numbers(parameter, variant.object))
      count += parameter.type == ParameterType::real
                   ? 1
                   : count_from(parameter.get(variant.object).tensor, 0);
  return count;
}

int64_t head_parameters_of(const Variant& variant) {
  int64_t count = 0;
  for (const Parameter& parameter : variant.declaration->parameters)
    if (has_numbers(parameter, variant.object)) count += own_count(parameter, variant.object);
  return count;
}

int64_t place_of_parameter(const Variant& variant, const Problem& p, const int64_t* index,
                           int64_t nth) {
  int64_t before = 0;
  for (const Parameter& parameter : variant.declaration->parameters) {
    if (!has_numbers(parameter, variant.object)) continue;
    const int64_t own = own_count(parameter, variant.object);
    if (parameter.type == ParameterType::real) {
      if (nth == 0) return before;
      ++before, --nth;
      continue;
    }
    const TensorView tensor = parameter.get(variant.object).tensor;
    if (nth >= own) {
      before += count_from(tensor, 0), nth -= own;
      continue;
    }
    const int leading = tensor.rank - parameter.own_rank;
    int64_t head = 0;  // row-major index among the heads of the tensor
    for (int d = 0; d < leading; ++d)
      head =
          head * tensor.shape[d] + (tensor.shape[d] == 1 ? 0 : index[p.leading_rank - leading + d]);
    return before + head * own + nth;
  }
  return -1;
}

void check_variant_tensors(const Variant& variant, const Problem& p) {
  for (const Parameter& parameter : variant.declaration->parameters) {
    if (parameter.own_rank < 0) continue;
    const TensorView tensor = parameter.get(variant.object).tensor;
    if (!tensor.defined()) {
      if (!parameter.required) continue;
      fail(ErrorCode::argument, variant, std::string(parameter.name) + " is missing");
    }
    extent_of(parameter.name, tensor);
    check_alignment(parameter.name, tensor);
    if (tensor.dtype != DType::f32 && tensor.dtype != DType::f64)
      fail(ErrorCode::dtype, variant,
           described(parameter.name, tensor) + " is " + name_of(tensor.dtype) +
               "; expected f32 or f64");
    const int leading = tensor.rank - parameter.own_rank;
    bool fits = leading >= 0;
    for (int d = 0; fits && d < leading; ++d) {
      const int of_output = p.leading_rank - leading + d;
      fits = tensor.shape[d] == 1 || (of_output >= 0 && tensor.shape[d] == p.leading[of_output]);
    }
    if (!fits)
      fail(ErrorCode::shape, variant,
           described(parameter.name, tensor) + " does not broadcast to the leading dimensions " +
               to_string(p.leading_dims()) +
               (parameter.own_rank > 0 ? ", before its last " + std::to_string(parameter.own_rank)
                                       : std::string()));
    if (tensor.data) check_range(parameter, tensor, variant);
  }
}

}  // namespace rapt
