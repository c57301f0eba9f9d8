#pragma once
// Files that a command writes: opened before the computation, written after it, all or none.
#include <memory>
#include <string>
#include <string_view>

#include "rapt/io/output_file.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// One output of a command. "-" is standard output.
class Output {
 public:
  Output() = default;  // not asked for

  // Opens the file, so that what cannot be written is known at once.
  // Throws Failure(io) with a hint, usage errors for a path that is no file name.
  Output(const std::string& option, const std::string& path, Overwrite overwrite);

  bool wanted() const { return !path_.empty(); }
  bool to_stdout() const { return path_ == "-"; }
  const std::string& path() const { return path_; }

  void write(const void* data, int64_t bytes);
  void write_npy(const TensorView& tensor);

  // Lets the file appear under its name and says so on stderr.
  void commit(const std::string& what);

 private:
  std::string path_;
  std::unique_ptr<OutputFile> file_;  // null for standard output
};

// Checks the ending of a tensor's file: .npy; .npz and .safetensors are refused by name.
void require_npy_name(const std::string& option, const std::string& path);

// Flushes standard output. Throws Failure(io) if anything written there was lost.
void finish_stdout();

}  // namespace rapt::cli
