#pragma once
// Tensors in files that a user names, of any format, and standard input.
//
//   F.npy, F.safetensors, ...   the one tensor of a file
//   F.npz:NAME                  one of several; what comes after the colon is its name
//   -, -:NAME                   standard input
//
// A path with a colon that exists is a path. Files of numbers as text (.csv, and JSON arrays) hold
// one tensor: i64 if all numbers are whole, else f64.
#include <CLI/CLI.hpp>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/process/memory.h"
#include "rapt/io/tensor_file.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// --npy-v2, the same for every command that reads or writes .npy files.
void add_npy_v2_option(CLI::App& command, std::string& value);
NpyV2 parse_npy_v2(const std::string& value);  // throws usage errors

// "F.npz:NAME" taken apart.
struct TensorAddress {
  std::string path;  // "-": standard input
  std::string name;
  bool named = false;
};
TensorAddress address_of(const std::string& text);

// Opens each file once, however many of its tensors are read.
class TensorInput {
 public:
  // Copies into memory are checked against the budget first; mapped files need no memory.
  explicit TensorInput(MemoryBudget& budget, NpyV2 v2 = NpyV2::refuse) : budget_(budget), v2_(v2) {}

  // All tensors of a file. An error for a missing file suggests the nearest name in its folder.
  const TensorFile& open(const std::string& option, const std::string& path);

  // The tensors of an address: one, or all if it has no name. An error for a missing name suggests
  // the nearest one and lists the others.
  std::vector<const StoredTensor*> find(const std::string& option, const TensorAddress& address);

  // `text` is an address of one tensor.
  LoadedTensor read(const std::string& option, const std::string& text);
  LoadedTensor read(const std::string& option, const StoredTensor& tensor);

  MemoryBudget& budget() const { return budget_; }

 private:
  TensorFile opened(const std::string& option, const std::string& path);

  MemoryBudget& budget_;
  NpyV2 v2_;
  std::map<std::string, TensorFile> files_;  // by path
};

// A file's bytes: mapped, or from standard input ("-") or another pipe or device, in memory.
std::shared_ptr<const InputFile> open_input(const std::string& option, const std::string& path,
                                            MemoryBudget& budget);

// "did you mean 'q.npy'?" for a similar file beside `path`; empty if there is none.
std::string file_meant(const std::string& path);

// Reads a whole text file, which may be a device that never ends.
std::string read_text_file(const std::string& option, const std::string& path,
                           MemoryBudget& budget);

// Wraps a tensor of this program as if it came from a file.
LoadedTensor owned(Tensor tensor);

}  // namespace rapt::cli
