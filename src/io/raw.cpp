// Raw elements, in and out.
#include "rapt/io/raw.h"

#include "io/elements.h"
#include "io/quoted.h"

namespace rapt {

TensorFile open_raw(std::shared_ptr<const InputFile> file, DType dtype, Shape shape) {
  const std::string name = path_text(file->name());
  if (std::ssize(shape) > kMaxRank)
    throw Error(ErrorCode::shape, name + ": expected at most " + std::to_string(kMaxRank) +
                                      " dimensions, got " + std::to_string(shape.size()));
  StoredTensor tensor;
  tensor.type = name_of(dtype);
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  try {
    tensor.bytes = element_count(shape) *
                   size_of(dtype);  // no overflow: element_count() allows 16 bytes per element
  } catch (const Error& error) {
    throw Error(error.code(), name + ": " + error.what());
  }
  if (tensor.bytes != file->bytes())
    throw Error(ErrorCode::format, name + ": expected " + std::to_string(tensor.bytes) +
                                       " bytes for " + name_of(dtype) + " " + to_string(shape) +
                                       ", got " + std::to_string(file->bytes()));
  tensor.file = std::move(file);
  TensorFile result;
  result.format = "raw";
  result.tensors = {std::move(tensor)};
  return result;
}

void write_raw(const WriteBytes& write, const TensorView& view) {
  check_elements("raw elements", view);
  write_elements(write, view);
}

}  // namespace rapt
