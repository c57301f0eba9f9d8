#pragma once
// The tensors of a decoder by transformers' names: each is taken once, with its shape, and what is
// left is rejected.
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/io/tensor_file.h"

namespace rapt::model {

class StoredWeights {
 public:
  // Opens the tensors of a folder. `prefix`: before the names of models with a head ("model.").
  // Throws as open_safetensors().
  StoredWeights(const std::string& folder, const std::string& prefix);

  // What the file says of a tensor, whose name has the prefix where the file has it. Throws
  // Error(format) for one that is missing, of another shape or of another type.
  const StoredTensor& find(const std::string& name, std::initializer_list<int64_t> shape);
  // The same of a name that never has a prefix.
  const StoredTensor& find_whole(const std::string& name, std::initializer_list<int64_t> shape);

  // Throws Error(format) for a tensor that nothing has found, unless it is `whole` or its name ends
  // as one of GPT-2's and Llama's buffers, which hold nothing learned.
  void refuse_additional(std::string_view whole) const;

  const std::string& path() const noexcept { return path_; }

 private:
  [[noreturn]] void fail(const std::string& what) const;

  TensorFile file_;
  std::string path_, prefix_;
  std::vector<bool> used_;
};

// A weight as products read it: mapped in its own type, or, of f64, a copy in f32.
LoadedTensor load_weight(const StoredTensor& stored);

// The bytes of memory that load_weight() takes; 0: it is mapped.
int64_t copied_bytes(const StoredTensor& stored);

// A transposed copy [columns, rows] of a matrix [rows, columns], in its type, or of f64 in f32.
LoadedTensor load_transposed(const StoredTensor& stored);

// Copies a vector into f32 numbers, each with `plus` added.
void copy_numbers(const StoredTensor& stored, float plus, std::span<float> to);

}  // namespace rapt::model
