#pragma once
// The JSON header of a .safetensors file: parsed, and checked against the bytes that follow it.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rapt/io/tensor_file.h"

namespace rapt {

struct SafetensorsHeader {
  std::vector<StoredTensor>
      tensors;  // as they lie in the file; offsets count from the header's end
  std::vector<std::pair<std::string, std::string>> metadata;
};

// Parses the header. Its tensors must cover the `data_bytes` bytes after it exactly. `file` is for
// messages. Throws Error as rapt/io/tensor_file.h says.
SafetensorsHeader parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                           const std::string& file);

}  // namespace rapt
