#pragma once
// Parameters of a variant from text and back, by its declaration.
#include <span>
#include <string>
#include <string_view>

#include "rapt/catalogue.h"
#include "rapt/declaration.h"

namespace rapt {

// What a text means that no parameter takes, so that the caller can say where it stands.
struct RefusedArgument {
  size_t index;  // into `arguments`; their count where one is missing or out of range
  ErrorCode code;
  std::string message;
};

// Sets the parameters of `variant` from `arguments`, each "value" or "name=value". One without a
// name goes to the first free parameter that can take it. Throws RefusedArgument, and whatever
// `tensors` throws.
void set_parameters(const Declaration& declaration, void* variant,
                    std::span<const std::string_view> arguments, const TensorSource& tensors);

// "256,0" or "right=2": what set_parameters() takes, without the parameters that have their
// defaults. A tensor is written <tensor>.
std::string parameters_text(const Declaration& declaration, const void* variant);

}  // namespace rapt
