#pragma once
// The inputs of `rapt attend`: query, key and value from files or from a text.
#include <optional>
#include <string>
#include <vector>

#include "cli/attend/attend_arguments.h"
#include "cli/input/tensor_input.h"
#include "rapt/tensor.h"

namespace rapt::cli {

// Query, key and value of one dtype: f32, f64, bf16 or f16. The views refer to the tensors.
struct Inputs {
  TensorView query;             // [..., q_len, head_dim]
  TensorView key, value;        // [..., k_len, head_dim], [..., k_len, value_dim]
  std::optional<double> scale;  // the default for a text; absent for files

  std::vector<std::string> words;  // of --text
  std::string text_source;         // its file, or "the command line"; empty for files

  LoadedTensor query_memory, key_memory, value_memory;  // for a text only query_memory
};

// Throws usage errors that follow from the options alone.
void check_input_options(const AttendArguments& arguments);

Inputs read_inputs(const AttendArguments& arguments, TensorInput& files);

// Converts a tensor of another dtype and says so on stderr. Throws Failure(data) for booleans.
void convert_input(const std::string& option, LoadedTensor& tensor, DType dtype,
                   MemoryBudget& budget);

// The dtype of a name such as "bf16"; none for an empty one. Throws usage errors.
std::optional<DType> dtype_named(const std::string& option, const std::string& name);

// The leading dimensions of the output of inputs that plan() accepts.
std::vector<int64_t> leading_dimensions(const Inputs& inputs);

}  // namespace rapt::cli
