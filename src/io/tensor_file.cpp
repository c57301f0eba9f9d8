// Detects the format of a file, and loads its tensors.
#include "rapt/io/tensor_file.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "io/npy_header.h"
#include "io/npz/npz_member.h"
#include "io/quoted.h"
#include "rapt/io/npy.h"
#include "rapt/io/npz.h"
#include "rapt/io/safetensors.h"

namespace rapt {
namespace {

[[noreturn]] void fail(ErrorCode code, const StoredTensor& tensor, const std::string& what) {
  const std::string name = path_text(tensor.file->name());
  throw Error(code,
              name + (tensor.name.empty() ? "" : ": " + in_quotes(tensor.name)) + ": " + what);
}

bool in_native_order(const StoredTensor& tensor) {
  return tensor.byte_order == std::endian::native;
}

// Whether the elements are aligned. Maps begin at pages, so the offset decides.
bool aligned(const StoredTensor& tensor) { return tensor.offset % size_of(*tensor.dtype) == 0; }

bool readable_where_it_lies(const StoredTensor& tensor) {
  return !tensor.deflated && in_native_order(tensor) && aligned(tensor);
}

void swap_bytes(std::byte* data, int64_t bytes, int64_t element_bytes) {
  for (int64_t i = 0; i < bytes; i += element_bytes)
    std::reverse(data + i, data + i + element_bytes);
}

// Rejects bytes other than 0 and 1: a C++ bool with another value is undefined behaviour.
void check_booleans(const StoredTensor& tensor, const void* data) {
  const auto* begin = static_cast<const std::byte*>(data);
  const auto* end = begin + tensor.bytes;
  const auto* bad =
      std::find_if(begin, end, [](std::byte b) { return std::to_integer<int>(b) > 1; });
  if (bad != end)
    fail(ErrorCode::format, tensor,
         "expected booleans of 0 or 1, got " + std::to_string(std::to_integer<int>(*bad)) +
             "; make it boolean with a != 0");
}

TensorView view_of(const StoredTensor& tensor, const void* data, bool read_only) {
  std::vector<int64_t> strides(tensor.shape.size());
  const bool empty = std::find(tensor.shape.begin(), tensor.shape.end(), 0) != tensor.shape.end();
  int64_t step = 1;
  for (size_t i = 0; i < strides.size(); ++i) {
    const size_t d = tensor.fortran_order ? i : strides.size() - 1 - i;
    strides[d] = step;
    if (!empty) step *= tensor.shape[d];
  }
  return {const_cast<void*>(data), *tensor.dtype, tensor.shape, strides, read_only};
}

// The number of bytes from which the format of a file follows.
constexpr size_t kTellingBytes = 16;

[[noreturn]] void refuse_format(const std::string& name, std::string_view start) {
  // Other formats that hold tensors, for messages.
  constexpr std::pair<std::string_view, const char*> kOthers[] = {
      {"\x89HDF\r\n\x1a\n", "an HDF5 file"}, {"GGUF", "a GGUF file"}, {"\x80", "a Python pickle"}};
  std::string got = start.empty() ? "an empty file" : "one that begins with " + in_quotes(start);
  for (const auto& [magic, what] : kOthers)
    if (start.starts_with(magic)) got = what;
  throw Error(
      ErrorCode::format,
      path_text(name) +
          ": expected a .npy, .npz or .safetensors file, or the model.safetensors.index.json "
          "of one in shards, told by their first bytes; got " +
          got);
}

}  // namespace

const StoredTensor* TensorFile::find(std::string_view name) const noexcept {
  for (const StoredTensor& tensor : tensors)
    if (tensor.name == name) return &tensor;
  return nullptr;
}

TensorFile open_tensor_file(const std::string& path, NpyV2 v2) {
  return open_tensor_file(std::make_shared<InputFile>(path), v2);
}

TensorFile open_tensor_file(std::shared_ptr<const InputFile> file, NpyV2 v2) {
  std::array<char, kTellingBytes> bytes{};
  const std::string_view start(
      bytes.data(), static_cast<size_t>(std::min<int64_t>(file->bytes(), std::ssize(bytes))));
  file->read(0, reinterpret_cast<std::byte*>(bytes.data()), std::ssize(start));
  // .safetensors is checked first. Its first bytes are the length of the header, which may happen
  // to equal the first bytes of another format. The upper half of a true length is zero, which
  // holds for no other format; open_safetensors() rejects a false length.
  const bool object_behind_length =
      start.substr(std::min<size_t>(8, start.size())).starts_with('{');
  if (object_behind_length && start.substr(4, 4) == std::string_view("\0\0\0\0", 4))
    return open_safetensors(std::move(file));
  if (start.starts_with("\x93NUMPY")) return open_npy(std::move(file), v2);
  if (start.starts_with("PK")) return open_npz(file, v2);
  if (start.starts_with('{')) return open_safetensors_index(file);
  if (object_behind_length) return open_safetensors(std::move(file));
  refuse_format(file->name(), start);
}

int64_t memory_of(const StoredTensor& tensor) noexcept {
  return !tensor.dtype || readable_where_it_lies(tensor) ? 0 : tensor.bytes;
}

LoadedTensor load(const StoredTensor& tensor) {
  if (!tensor.dtype && is_npz_member(tensor)) refuse_npz_member(tensor);
  if (!tensor.dtype && tensor.name.empty()) refuse_npy_type(tensor.type, tensor.file->name());
  if (!tensor.dtype)
    fail(ErrorCode::dtype, tensor,
         "element type " + in_quotes(tensor.type) +
             " is not read; convert it to one that is: f32, f64, bf16, f16, i64, i32, u8 or bool");
  if (readable_where_it_lies(tensor)) {
    const std::byte* data = tensor.file->map().data() + tensor.offset;
    if (is_npz_member(tensor)) check_npz_member(tensor);
    if (tensor.bytes == 0) data = nullptr;
    if (*tensor.dtype == DType::boolean) check_booleans(tensor, data);
    return {tensor.file, view_of(tensor, data, true)};
  }
  Tensor own(*tensor.dtype, tensor.shape);
  auto* data = static_cast<std::byte*>(own.data());
  if (is_npz_member(tensor)) {
    read_npz_member(tensor, data);
  } else {
    tensor.file->read(tensor.offset, data, tensor.bytes);
  }
  if (!in_native_order(tensor)) swap_bytes(data, tensor.bytes, size_of(*tensor.dtype));
  if (*tensor.dtype == DType::boolean) check_booleans(tensor, data);
  const TensorView view = view_of(tensor, data, false);
  return {std::move(own), view};
}

}  // namespace rapt
