#pragma once
// .safetensors files as strings, so that tests can build files that no writer produces.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rapt/io/safetensors.h"
#include "scratch_folder.h"

namespace rapt::test {

// The eight-byte length of `json`, then `json`, then the elements.
inline std::string safetensors_file(const std::string& json, const std::string& elements = "") {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(static_cast<uint64_t>(json.size()) >> (8 * i) & 255);
  return bytes + json + elements;
}

// "NAME":{"dtype":...}, the form in which a header lists a tensor.
inline std::string entry(const std::string& name, const std::string& dtype,
                         const std::string& shape, const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

inline std::shared_ptr<const InputFile> held(const std::string& name, const std::string& bytes) {
  const auto view = as_bytes(bytes);
  return std::make_shared<InputFile>(name, std::vector<std::byte>(view.begin(), view.end()));
}

inline TensorFile open_bytes(const std::string& bytes) {
  return open_safetensors(held("evil.safetensors", bytes));
}

using Texts = std::vector<std::pair<std::string, std::string>>;

inline std::string written(const std::vector<NamedTensor>& tensors, const Texts& metadata = {}) {
  std::string bytes;
  write_safetensors(
      [&](const void* data, int64_t count) {
        bytes.append(static_cast<const char*>(data), static_cast<size_t>(count));
      },
      tensors, metadata);
  return bytes;
}

// The JSON header of a file, without the blanks after it.
inline std::string header_of(const std::string& bytes) {
  const std::string json = bytes.substr(8, bytes.find('\0', 8) - 8);
  return json.substr(0, json.rfind('}') + 1);
}

}  // namespace rapt::test
