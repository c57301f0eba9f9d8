#pragma once
// Tensors that a user names: files, standard input, or numbers written on the command line.
#include <string>
#include <string_view>

#include "memory.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// Reads a .npy file; "-" is standard input. Its memory is asked of the budget first.
// A file that is not there is answered with the nearest name in its folder.
Tensor read_tensor(const std::string& option, const std::string& path, MemoryBudget& budget);

// Reads a whole text file. A file that is not there is answered as above.
std::string read_text_file(const std::string& option, const std::string& path);

// "1 2; 3 4" -> f64 [2, 2]: rows end with ';' or a line break, numbers are separated by blanks or
// commas.
Tensor parse_matrix(const std::string& option, std::string_view text);

// Nothing but numbers and separators, as parse_matrix() takes it; "./1" names a file.
bool is_matrix_text(std::string_view text);

// The same numbers in another type, rounded to nearest. Throws Error(dtype) for a boolean tensor.
Tensor converted(const TensorView& tensor, DType dtype);

}  // namespace rapt::cli
