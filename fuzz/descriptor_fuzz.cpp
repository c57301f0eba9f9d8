// Problems, masks and scores from any text: an Error, or something whose own text means the same
// again. Nothing is allocated because of a number that the text holds.
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

// Every name of a tensor means the same one: what it holds is no matter of parsing.
TensorView some_tensor(std::string_view) {
  static int64_t values[] = {0};
  return TensorView(values, {1});
}

void mask_from(std::string_view text) {
  const std::string once = to_string(*make_mask(text, some_tensor));
  require(to_string(*make_mask(once, some_tensor)) == once);
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
  // What the command line asks before it draws the tensors.
  for (const check::MaskSpec& mask : problem.masks) {
    if (!mask.holds_tensor()) mask_from(to_string(*mask.make()));
  }
}

}  // namespace

// The first letter says what the rest is read as: m for a mask, s for a score, else a problem.
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
      default:
        problem_from(text);
    }
  } catch (const Error&) {
  }
  // Lists of at most 64 masks and 1,024 numbers, and messages that quote the text.
  require(fuzz::largest_allocation <= (size_t{1} << 16) + 16 * size);
  return 0;
}
