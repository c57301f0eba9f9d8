// Which format a file has, and its tensors in memory.
#include "rapt/io/tensor_file.h"

#include <algorithm>
#include <cstring>

#include "quoted.h"
#include "rapt/io/npy.h"

namespace rapt {
namespace {

[[noreturn]] void fail(ErrorCode code, const StoredTensor& tensor, const std::string& what) {
  const std::string name = path_text(tensor.file->name());
  throw Error(code, name + (tensor.name.empty() ? "" : ": " + quoted(tensor.name)) + ": " + what);
}

bool in_native_order(const StoredTensor& tensor) {
  return tensor.byte_order == std::endian::native;
}

// At an address that its elements may have? Maps begin at pages, so offsets tell.
bool aligned(const StoredTensor& tensor) { return tensor.offset % size_of(*tensor.dtype) == 0; }

void swap_bytes(std::byte* data, int64_t bytes, int64_t element_bytes) {
  for (int64_t i = 0; i < bytes; i += element_bytes)
    std::reverse(data + i, data + i + element_bytes);
}

// A C++ bool of any other value is undefined behaviour.
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
  return open_npy(std::move(file), v2);
}

int64_t memory_of(const StoredTensor& tensor) noexcept {
  if (!tensor.dtype) return 0;
  return !tensor.deflated && in_native_order(tensor) && aligned(tensor) ? 0 : tensor.bytes;
}

LoadedTensor load(const StoredTensor& tensor) {
  if (!tensor.dtype)
    fail(ErrorCode::dtype, tensor, "element type " + quoted(tensor.type) + " is not read");
  if (memory_of(tensor) == 0) {
    const std::byte* data = tensor.file->map().data() + tensor.offset;
    if (tensor.bytes == 0) data = nullptr;
    if (*tensor.dtype == DType::boolean) check_booleans(tensor, data);
    return {tensor.file, view_of(tensor, data, true)};
  }
  Tensor own(*tensor.dtype, tensor.shape);
  auto* data = static_cast<std::byte*>(own.data());
  tensor.file->read(tensor.offset, data, tensor.bytes);
  if (!in_native_order(tensor)) swap_bytes(data, tensor.bytes, size_of(*tensor.dtype));
  if (*tensor.dtype == DType::boolean) check_booleans(tensor, data);
  const TensorView view = view_of(tensor, data, false);
  return {std::move(own), view};
}

}  // namespace rapt
