#pragma once
// Texts of masks, scores and normalisers, drawn from the declarations of the catalogue, so that a
// new variant takes part in the tests of layers without a line of its own.
#include <algorithm>
#include <span>
#include <string>

#include "check/tensors/random.h"
#include "rapt/catalogue.h"

namespace nn_tests {

// A value of a parameter, as text; "" for a tensor that has no numbers for each head.
inline std::string drawn_value(const rapt::Parameter& parameter, check::Random& random) {
  const auto within = [&](double low, double high) {
    return std::pair(std::max(low, parameter.range.min), std::min(high, parameter.range.max));
  };
  switch (parameter.type) {
    case rapt::ParameterType::integer: {
      const auto [low, high] = within(0, 6);
      return std::to_string(
          random.between(static_cast<int64_t>(low), static_cast<int64_t>(std::max(low, high))));
    }
    case rapt::ParameterType::real: {
      const auto [low, high] = within(0.5, 3);
      return std::to_string(low + (high - low) * random.uniform());
    }
    case rapt::ParameterType::choice:
      return parameter.choices[static_cast<size_t>(
          random.between(0, static_cast<int64_t>(parameter.choices.size()) - 1))];
    case rapt::ParameterType::tensor:
      break;
  }
  if (parameter.own_rank < 0 || parameter.own_rank > 1) return "";
  const std::string word = random.chance(0.7) ? "learned" : "shared";
  return parameter.own_rank == 1 ? word + "[4]" : word;
}

// A variant with its required parameters, and each other one with this probability.
inline std::string drawn_text(const rapt::Declaration& declaration, double optional,
                              check::Random& random) {
  std::string arguments;
  for (const rapt::Parameter& parameter : declaration.parameters) {
    const bool wanted = random.chance(optional);
    if (!parameter.required && !wanted) continue;
    const std::string value = drawn_value(parameter, random);
    if (value.empty()) continue;
    arguments += (arguments.empty() ? "" : ", ") + std::string(parameter.name) + "=" + value;
  }
  return arguments.empty() ? declaration.name
                           : std::string(declaration.name) + "(" + arguments + ")";
}

// A mask without tensors, or one that combines two.
inline std::string drawn_mask(check::Random& random) {
  const auto alone = [&] {
    const std::span<const rapt::Declaration* const> all = rapt::mask_declarations();
    while (true) {
      const rapt::Declaration& declaration =
          *all[static_cast<size_t>(random.between(0, static_cast<int64_t>(all.size()) - 1))];
      const std::string text = drawn_text(declaration, 0.6, random);
      try {  // what needs a tensor or parts is none
        rapt::make_mask(text);
        return text;
      } catch (const rapt::Error&) {
      }
    }
  };
  switch (random.between(0, 4)) {
    case 0:
      return alone() + " & " + alone();
    case 1:
      return alone() + " | " + alone();
    case 2:
      return "!" + alone();
    default:
      return alone();
  }
}

}  // namespace nn_tests
