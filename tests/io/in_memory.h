#pragma once
// Bytes in memory as an InputFile, without a file on disk.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "rapt/io/npy.h"
#include "rapt/io/tensor_file.h"

namespace rapt::test {

inline std::shared_ptr<const InputFile> in_memory(const std::string& bytes,
                                                  const std::string& name = "memory.npy") {
  std::vector<std::byte> held(bytes.size());
  if (!bytes.empty()) std::memcpy(held.data(), bytes.data(), bytes.size());
  return std::make_shared<const InputFile>(name, std::move(held));
}

// The array of a .npy file.
inline Tensor tensor_in(const std::string& npy, const std::string& name = "memory.npy",
                        NpyV2 v2 = NpyV2::refuse) {
  const TensorFile file = open_npy(in_memory(npy, name), v2);
  return Tensor::copy_of(load(file.tensors[0]).view());
}

// A .npy file of version 1 with exactly this dict, neither padded nor aligned.
inline std::string npy_file(const std::string& dict, size_t data_bytes = 0) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(dict.size() & 255) +
         static_cast<char>(dict.size() >> 8) + dict + std::string(data_bytes, '\0');
}

inline std::string npy_dict(const std::string& descr, const std::string& shape,
                            const std::string& fortran_order = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran_order + ", 'shape': " + shape +
         ", }";
}

}  // namespace rapt::test
