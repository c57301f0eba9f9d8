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

// The reference implementation's bound, of an index too.
inline constexpr int64_t kMaxSafetensorsHeader = 100'000'000;
// The limit for the tensors of a file or an index, and for the texts of __metadata__. The largest
// models have some 150,000 tensors.
inline constexpr int64_t kMaxSafetensorsTensors = 1 << 20;
// In bytes of UTF-8; names in use have some 100.
inline constexpr int64_t kMaxSafetensorsName = 4096;

// Throws Error as rapt/io/tensor_file.h says. Tensors of types that rapt does not compute with
// (F8_E4M3, U16, ...) are listed, without a dtype; load() rejects them.
TensorFile open_safetensors(std::shared_ptr<const InputFile> file);

// model.safetensors.index.json: {"weight_map": {"name": "shard.safetensors", ...}, "metadata":
// ...}. The tensors that it names, in its order, from shards in its folder; a tensor of a shard
// that it does not name is left out. Throws as above, and Error(format) for a tensor that its shard
// lacks.
TensorFile open_safetensors_index(const std::shared_ptr<const InputFile>& index);

// Row-major whatever the views' strides, in the reference's order: types of larger alignment first
// (I64, F64, F32, I32, BF16, F16, U8, BOOL), then names by their bytes. Elements begin at a
// multiple of 64 bytes. Throws Error(argument, overflow) before anything is written.
void write_safetensors(const WriteBytes& write, std::span<const NamedTensor> tensors,
                       std::span<const std::pair<std::string, std::string>> metadata = {});

}  // namespace rapt
