// .npy files: one array, in and out.
#include "rapt/io/npy.h"

#include <algorithm>
#include <vector>

#include "io/elements.h"
#include "io/npy_header.h"

namespace rapt {

TensorFile open_npy(std::shared_ptr<const InputFile> file, NpyV2 v2) {
  std::vector<std::byte> prefix(static_cast<size_t>(std::min(file->bytes(), kMaxNpyPrefix)));
  file->read(0, prefix.data(), std::ssize(prefix));
  TensorFile result;
  result.format = "npy";
  result.tensors = {list_npy_header(prefix, file->bytes(), file->name(), v2)};
  result.tensors[0].file = std::move(file);
  return result;
}

Tensor read_npy(const std::string& path, NpyV2 v2) {
  const TensorFile file = open_npy(std::make_shared<InputFile>(path), v2);
  return Tensor::copy_of(load(file.tensors[0]).view());
}

void write_npy(const WriteBytes& write, const TensorView& view, NpyV2 v2) {
  check_elements(".npy", view);
  const std::string header = npy_header_for(view.dtype, view.dims(), v2);
  write(header.data(), std::ssize(header));
  write_elements(write, view);
}

void write_npy(const std::string& path, const TensorView& view, Overwrite overwrite, NpyV2 v2) {
  check_elements(path, view);
  npy_header_for(view.dtype, view.dims(), v2);  // throws for a view that cannot be written
  OutputFile file(path, overwrite);
  write_npy([&](const void* data, int64_t bytes) { file.write(data, bytes); }, view, v2);
  file.commit();
}

}  // namespace rapt
