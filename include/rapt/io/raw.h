#pragma once
// Files of elements and nothing else: row-major, in the machine's byte order. The file does not
// contain dtype and shape; the reader must know them.
#include <memory>

#include "rapt/io/output_file.h"
#include "rapt/io/tensor_file.h"

namespace rapt {

// Throws Error(format) unless the file has exactly as many bytes as the shape needs, Error(shape,
// overflow) for a shape that no tensor can have, Error(io).
TensorFile open_raw(std::shared_ptr<const InputFile> file, DType dtype, Shape shape);

// Row-major whatever the view's strides. Throws Error(argument) before anything is written.
void write_raw(const WriteBytes& write, const TensorView& view);

}  // namespace rapt
