#pragma once
// Parameters of a variant from text and back, by its declaration.
#include <span>
#include <string>
#include <string_view>

#include "rapt/catalogue.h"
#include "rapt/declaration.h"

namespace rapt {

// An argument that no parameter accepts, with its index, so that the caller can point to it.
struct RefusedArgument {
  size_t index;  // index into `arguments`; their number if an argument is missing or out of range
  ErrorCode code;
  std::string message;
};

// Sets the parameters of `variant` from `arguments`, each "value" or "name=value". An argument
// without a name goes to the first free parameter that accepts it. Throws RefusedArgument, and
// whatever `tensors` throws.
void set_parameters(const Declaration& declaration, void* variant,
                    std::span<const std::string_view> arguments, const TensorSource& tensors);

// The arguments that set_parameters() would need, such as "256,0" or "right=2", without parameters
// at their defaults. A tensor is written <tensor>.
std::string parameters_text(const Declaration& declaration, const void* variant);

}  // namespace rapt
