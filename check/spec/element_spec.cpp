#include "check/spec/element_spec.h"

#include <cmath>

#include "check/tensors/arrays.h"

namespace check {

std::string to_string(const ElementSpec& element) {
  std::string text = kInputTensorNames[static_cast<int>(element.tensor)];
  for (size_t d = 0; d < element.index.size(); ++d) {
    const bool all = element.whole_row && d + 1 == element.index.size();
    text += (d == 0 ? "[" : ",") + (all ? "*" : std::to_string(element.index[d]));
  }
  return text + "]=" + (std::isnan(element.value) ? "nan" : number_text(element.value));
}

}  // namespace check
