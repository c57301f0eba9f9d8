#pragma once
// Files that hold tensors, of any format: .npy holds one, .npz and .safetensors hold many, by name.
//
// The format is recognised by the content of the file, not by its ending. The whole file is checked
// before memory is allocated for any of its tensors. Elements that the machine can read in place
// are read from the mapped file; others are copied: those of the other byte order, at odd
// addresses, or compressed.
#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rapt/io/input_file.h"
#include "rapt/tensor.h"

namespace rapt {

// What a file says of one tensor.
struct StoredTensor {
  std::string name;                              // "" in .npy, which names none
  std::string type;                              // of an element, as the file writes it: "<f4"
  std::optional<DType> dtype;                    // absent: one that rapt does not read
  std::endian byte_order = std::endian::native;  // native for elements of one byte
  bool fortran_order = false;                    // first dimension fastest
  std::vector<int64_t> shape;
  int64_t bytes = 0;  // of all elements

  // Where they are.
  std::shared_ptr<const InputFile> file;
  int64_t offset = 0;         // of the first element in the file; if deflated, in the member
  bool deflated = false;      // a member of an .npz that is compressed
  int64_t member_offset = 0;  // of a member of an .npz, in the file
  int64_t member_bytes = 0;   // as stored; 0: not a member of an .npz
  uint32_t member_crc = 0;    // CRC-32 of the member, uncompressed
};

struct TensorFile {         // what a file holds
  const char* format = "";  // "npy", "npz", "safetensors"
  std::vector<StoredTensor> tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  // of a .safetensors file

  // Null: none of this name.
  const StoredTensor* find(std::string_view name) const noexcept;
};

// NumPy has no name for bf16: it saves such arrays as two bytes without a type, '<V2'.
enum class NpyV2 : uint8_t { refuse, bf16 };

// All functions below throw Error with one line that names the file:
//   format    not a file of a known format, or a file that contradicts itself
//   dtype     an element type that rapt does not read
//   shape     more dimensions than a tensor can have
//   overflow  a shape whose size does not fit into 64 bits
//   io        the operating system refused, or the path is not a regular file

TensorFile open_tensor_file(const std::string& path, NpyV2 v2 = NpyV2::refuse);  // of any format
TensorFile open_tensor_file(std::shared_ptr<const InputFile> file, NpyV2 v2 = NpyV2::refuse);

// A tensor of a file: a view of the mapped file, or of memory of its own.
class LoadedTensor {
 public:
  LoadedTensor() = default;
  LoadedTensor(Tensor own, const TensorView& view) : own_(std::move(own)), view_(view) {}
  LoadedTensor(std::shared_ptr<const InputFile> file, const TensorView& view)
      : file_(std::move(file)), view_(view) {}

  // Read-only if mapped. Valid while this object lives.
  const TensorView& view() const& noexcept { return view_; }
  bool mapped() const noexcept { return file_ != nullptr; }

 private:
  Tensor own_;
  std::shared_ptr<const InputFile> file_;
  TensorView view_;
};

// A tensor to be written under a name.
struct NamedTensor {
  std::string name;
  TensorView view;
};

// The memory that load() takes for a tensor; 0 for one that is looked at where it lies.
int64_t memory_of(const StoredTensor& tensor) noexcept;

// Any order of dimensions, native byte order. Throws Error as above, Error(format) for booleans
// other than 0 and 1, std::bad_alloc.
LoadedTensor load(const StoredTensor& tensor);

}  // namespace rapt
