#include "check/problem/parse_elements.h"

#include <algorithm>
#include <limits>

namespace check {
namespace {

InputTensor parse_tensor(Scanner& in) {
  const size_t begin = in.position();
  const std::string_view name = in.word();
  const auto* found = std::ranges::find(kInputTensorNames, name);
  if (found == std::end(kInputTensorNames)) {
    in.go_back_to(begin);
    in.fail("expected query, key, value, bias, d_output, d_lse or d_weights");
  }
  return static_cast<InputTensor>(found - std::begin(kInputTensorNames));
}

ElementSpec parse_element(Scanner& in) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  ElementSpec element;
  element.tensor = parse_tensor(in);
  in.expect("[");
  do {
    if (element.index.size() == kMaxLeading + 2)
      in.fail("expected at most " + std::to_string(kMaxLeading + 2) + " places");
    element.whole_row = in.take("*");
    element.index.push_back(element.whole_row ? 0 : in.integer(0, kMaxLength, "a place or *"));
  } while (!element.whole_row && in.take(","));
  in.expect("]=");
  element.value = in.take("nan") ? std::numeric_limits<double>::quiet_NaN()
                                 : in.real(-kInfinity, kInfinity, "nan, inf, -inf or a number");
  return element;
}

}  // namespace

std::vector<ElementSpec> parse_elements(Scanner& in) {
  std::vector<ElementSpec> elements;
  do elements.push_back(parse_element(in));
  while (in.take(","));
  return elements;
}

bool exists(const ElementSpec& element, const Descriptor& problem) {
  const Dims dims = dims_of(element.tensor, problem);
  return !dims.empty() && std::ranges::equal(element.index, dims, [](int64_t at, int64_t length) {
    return at < length;
  });
}

}  // namespace check
