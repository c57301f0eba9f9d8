#pragma once
// The tensors of a trained model by transformers' names: each is taken once, with its shape, and
// what is left is rejected.
#include <functional>
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
  // `takes_f64`: are tensors of f64 those of a model? Throws as open_safetensors().
  StoredWeights(const std::string& folder, const std::string& prefix, bool takes_f64);

  StoredWeights(const StoredWeights&) = delete;
  StoredWeights& operator=(const StoredWeights&) = delete;

  // Is there a tensor of a name, before which the prefix stands where the file has it?
  bool has(const std::string& name) const { return lookup(prefix_ + name) != nullptr; }

  // What the file says of a tensor, whose name has the prefix where the file has it. Throws
  // Error(format) for one that is missing, of another shape or of another type.
  const StoredTensor& find(const std::string& name, std::initializer_list<int64_t> shape);
  // The same of a name that never has a prefix.
  const StoredTensor& find_whole(const std::string& name, std::initializer_list<int64_t> shape);

  // Throws Error(format) for a tensor that nothing has found and whose name is not
  // one of those that a model ignores.
  void refuse_additional(const std::function<bool(std::string_view)>& is_ignored) const;

 private:
  const StoredTensor* lookup(std::string_view name) const;
  [[noreturn]] void fail(const std::string& what) const;

  TensorFile file_;
  std::string path_, prefix_;
  bool takes_f64_;
  std::vector<const StoredTensor*> by_name_;  // sorted: a model asks for each of its tensors
  std::vector<bool> used_;
};

// Loads a weight for products. In f32 it is mapped in its own type; f64 is copied to f32. In bf16
// it is mapped if it is bf16, else copied.
LoadedTensor load_weight(const StoredTensor& stored, DType computed);

// The bytes of memory that load_weight() takes; 0: it is mapped.
int64_t copied_bytes(const StoredTensor& stored, DType computed);

// Copies a vector into f32 numbers, each with `plus` added.
void copy_numbers(const StoredTensor& stored, float plus, std::span<float> to);

}  // namespace rapt::model
