#pragma once
// The output files of a command: opened before the computation, written after it, all or none.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "rapt/io/npz.h"
#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// One output of a command. "-" is standard output.
class Output {
 public:
  // Opens the file, so that errors are known before the computation. Throws Failure(io) with a
  // hint, usage errors for a path that is no file name.
  Output(const std::string& option, const std::string& path, Overwrite overwrite);

  bool to_stdout() const { return path_ == "-"; }
  const std::string& path() const { return path_; }

  void write(const void* data, int64_t bytes);

  // Makes the file appear under its name, and says so on stderr.
  void commit(const std::string& what);

 private:
  std::string path_;
  std::unique_ptr<OutputFile> file_;  // null for standard output
};

// The format of a file follows its ending; standard output, devices and pipes get .npy.
enum class FileFormat : uint8_t { npy, npz, safetensors, raw, csv, json };

// The place for a tensor: "F.npy", "F.npz:NAME", "F.safetensors:NAME", "-".
struct TensorPlace {
  std::string path;
  std::string name;  // in a file of several; empty: none was given
  FileFormat format = FileFormat::npy;

  bool many() const { return format == FileFormat::npz || format == FileFormat::safetensors; }
};

enum class Endings : uint8_t { tensors, any };  // .npy, .npz, .safetensors; or text and raw as well

// Throws usage errors for another ending.
TensorPlace place_of(const std::string& option, const std::string& text,
                     Endings endings = Endings::tensors);

// The metadata of a .safetensors file: texts by name.
using Metadata = std::vector<std::pair<std::string, std::string>>;

// The files that get the tensors of a command: several tensors may go into one file.
class TensorOutputs {
 public:
  struct Written {
    std::string what, path;
    std::string name;  // in a file of several
  };

  TensorOutputs(Overwrite overwrite, NpyV2 v2, Compression compression = Compression::stored)
      : overwrite_(overwrite), v2_(v2), compression_(compression) {}

  // Adds a file and opens it. `what`, the option's word, is the name of the tensor if the place has
  // none.
  void add(const std::string& what, const std::string& option, const TensorPlace& place);

  bool empty() const { return files_.empty(); }
  bool to_stdout() const;

  // Checks that this tensor can be written to its places. Throws usage errors. Tensors without a
  // place are ignored, here and below.
  void check(const std::string& what, DType dtype) const;

  // Sets the tensor for all places of `what`.
  void set(const std::string& what, const TensorView& tensor);
  void set_metadata(Metadata metadata) { metadata_ = std::move(metadata); }
  void write();                   // writes all tensors; no file appears yet
  std::vector<Written> commit();  // makes all files appear, in the order of add()

 private:
  struct Entry {
    std::string what;
    NamedTensor tensor;
  };
  struct File {
    Output output;
    FileFormat format;
    std::vector<Entry> entries;
  };

  Overwrite overwrite_;
  NpyV2 v2_;
  Compression compression_;
  Metadata metadata_;
  std::vector<File> files_;
};

// Whether two paths, which need not exist, mean the same file. False for devices and standard
// output.
bool same_file(const std::string& a, const std::string& b);

// Flushes standard output. Throws Failure(io) if anything written there was lost.
void finish_stdout();

}  // namespace rapt::cli
