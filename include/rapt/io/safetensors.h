#pragma once
// Hugging Face's .safetensors files: many tensors by name, and the index of a model in shards.
//
// Format: 8 bytes N, little-endian; N bytes of JSON, {"name": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [begin, end]}, ..., "__metadata__": {"text": "text"}}; then the elements,
// row-major and little-endian, without a hole, an overlap or a byte more. Source:
// huggingface/safetensors, safetensors/src/tensor.rs.
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"

namespace rapt {

// The reference implementation's bound.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;

// Throws Error as rapt/io/tensor_file.h says. Element types that rapt does not compute with
// (F8_E4M3, U16, ...) are listed, without a dtype, and refused by load().
TensorFile open_safetensors(std::shared_ptr<const InputFile> file);

// model.safetensors.index.json: the tensors of all the shards that it names, which lie in the same
// folder. Throws as above, and Error(format) for a tensor that its shard lacks.
TensorFile open_safetensors_index(std::shared_ptr<const InputFile> index);

// Row-major whatever the views' strides, aligned to 64 bytes where the format leaves room, that is
// in front of the elements. Throws Error(dtype, argument) before anything is written.
void write_safetensors(const WriteBytes& write, std::span<const NamedTensor> tensors,
                       std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace rapt
