#include "check/draw/drawn_method.h"

#include <algorithm>

#include "rapt/catalogue.h"
#include "rapt/method/favor.h"
#include "rapt/method/linear.h"

namespace check {

std::string drawn_method(Random& random, std::string_view name) {
  const auto any_of = [&](const auto& words) {
    const auto last = static_cast<int64_t>(std::size(words)) - 1;
    return std::string(words[static_cast<size_t>(random.between(0, last))]);
  };
  if (name == "favor") {
    const std::string kind = any_of(rapt::kFavorKindNames);
    const bool shifts = kind != "trigonometric" && random.chance(0.3);
    return "favor(features=" + std::to_string(random.pick({1, 3, 8, 15, 16, 17, 33})) +
           ",kind=" + kind + ",rows=" + any_of(rapt::kProjectionRowsNames) +
           ",seed=" + std::to_string(random.between(0, 9)) +
           (shifts ? random.pick({",exponent=-0.05", ",exponent=0.02"}) : "") + ")";
  }
  if (name == "linear")
    return "linear(map=" + any_of(rapt::kLinearMapNames) +
           ",normalized=" + any_of(rapt::kNormalizedNames) + ")";
  const auto declarations = rapt::method_declarations();
  const rapt::Declaration& found =
      **std::ranges::find_if(declarations, [&](const auto* one) { return one->name == name; });
  const auto last = std::max<int64_t>(static_cast<int64_t>(found.examples.size()), 1) - 1;
  return example_text(found, static_cast<size_t>(random.between(0, last)));
}

void fit_method(std::string_view name, Descriptor& problem) {
  if (name != "favor") return;
  // Exponents of features stay so small that no sum of weights underflows (docs/methods/favor.md).
  problem.magnitude = std::min(problem.magnitude, 1.0);
  if (problem.scale) problem.scale = std::max(*problem.scale, -0.3);
}

bool needs_square_causal(std::string_view name) {
  if (name == "none") return false;
  const rapt::MethodScope& scope = rapt::make_method(std::string(name))->scope();
  return !scope.shifted_causal || !scope.causal_lengths_differ;
}

}  // namespace check
