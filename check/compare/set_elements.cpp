#include "check/compare/set_elements.h"

namespace check {
namespace {

// The dimension of stride 0; -1: none.
int repeated_dim(const Descriptor& d, InputTensor which) {
  switch (which) {
    case InputTensor::query:
      return d.query.repeated;
    case InputTensor::key:
      return d.key.repeated;
    case InputTensor::value:
      return d.value.repeated;
    case InputTensor::bias:
      return d.bias.repeated;
    default:
      return -1;
  }
}

bool is_at(const ElementSpec& element, int repeated, std::span<const int64_t> index) {
  for (size_t d = 0; d < index.size(); ++d) {
    const bool any =
        static_cast<int>(d) == repeated || (element.whole_row && d + 1 == index.size());
    if (!any && index[d] != element.index[d]) return false;
  }
  return true;
}

}  // namespace

void set_elements(const Descriptor& descriptor, InputTensor which, const TensorView& tensor) {
  const int repeated = repeated_dim(descriptor, which);
  for (const ElementSpec& element : descriptor.elements) {
    if (element.tensor != which) continue;
    for_each_index(tensor.dims(), [&](auto index) {
      if (is_at(element, repeated, index)) set(tensor, index, element.value);
    });
  }
}

}  // namespace check
