// Problems, masks, scores and methods from any text: an Error, or an object whose own text parses
// to the same object. No allocation depends on a number in the text.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "check/problem/descriptor.h"
#include "largest_allocation.h"
#include "rapt/catalogue.h"

using namespace rapt;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

// Every name means the same tensor, because parsing does not depend on its contents.
TensorView some_tensor(std::string_view) {
  static int64_t values[] = {0};
  return TensorView(values, {1});
}

void mask_from(std::string_view text) {
  const std::string once = to_string(*make_mask(text, some_tensor));
  require(to_string(*make_mask(once, some_tensor)) == once);
}

// The text of a method that holds a tensor says <tensor>, which is no name.
void method_from(std::string_view text) {
  const std::string once = to_string(*make_method(text, some_tensor));
  if (once.find('<') == std::string::npos) require(to_string(*make_method(once)) == once);
}

void problem_from(std::string_view text) {
  const check::Descriptor problem = check::parse_descriptor(text);
  require(problem.heads() >= 0 && std::isfinite(problem.work()) && problem.work() >= 0);
  const std::string canonical = to_string(problem);
  // A number may be longer in its canonical form: 1e4 and 10000.
  if (canonical.size() <= check::kMaxText) {
    const check::Descriptor again = check::parse_descriptor(canonical);
    require(again == problem && to_string(again) == canonical);
  }
  // The checks that the command line makes before it draws the tensors.
  for (const check::MaskSpec& mask : problem.masks) {
    if (!mask.holds_tensor()) mask_from(to_string(*mask.make()));
  }
}

}  // namespace

// The first letter decides how the rest is parsed: m as a mask, s as a score, t as a method,
// else as a problem.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  fuzz::begin_watching();
  try {
    switch (data[0]) {
      case 'm':
        mask_from(text);
        break;
      case 's':
        require(make_score(text, some_tensor).object != nullptr);
        break;
      case 't':
        method_from(text);
        break;
      default:
        problem_from(text);
    }
  } catch (const Error&) {
  }
  // Room for lists of at most 64 masks and 1,024 numbers, and for messages that quote the text.
  require(fuzz::largest_allocation <= (size_t{1} << 16) + 16 * size);
  return 0;
}
