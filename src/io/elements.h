#pragma once
// The elements of a view in the order of files: dense, row-major, whatever its strides.
#include <bit>
#include <string>

#include "rapt/io/output_file.h"
#include "rapt/tensor.h"

namespace rapt {

// Checks that the view can be written. `name`: of the file or tensor, for messages. Throws
// Error(argument).
void check_elements(const std::string& name, const TensorView& view);

void write_elements(const WriteBytes& write, const TensorView& view,
                    std::endian byte_order = std::endian::native);

}  // namespace rapt
