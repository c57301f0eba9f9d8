#pragma once
// Elements of inputs that get a chosen number in place of the drawn one: NaN, infinities, numbers
// near the end of a dtype's range. They show where a number that is not finite goes.
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace check {

// The tensors that can have such elements. Those behind bias are inputs of the backward pass alone.
enum class InputTensor : uint8_t { query, key, value, bias, d_output, d_lse, d_weights };
inline constexpr const char* kInputTensorNames[] = {"query",    "key",   "value",    "bias",
                                                    "d_output", "d_lse", "d_weights"};

struct ElementSpec {
  InputTensor tensor = InputTensor::query;
  std::vector<int64_t> index;  // in the tensor's dimensions
  bool whole_row = false;      // all elements of the last dimension; its index is 0
  double value = 0;

  // A NaN equals itself.
  bool operator==(const ElementSpec& other) const {
    return tensor == other.tensor && index == other.index && whole_row == other.whole_row &&
           std::bit_cast<uint64_t>(value) == std::bit_cast<uint64_t>(other.value);
  }
};

// The text in a descriptor: "key[0,3,17]=nan", "value[1,*]=-inf".
std::string to_string(const ElementSpec& element);

}  // namespace check
