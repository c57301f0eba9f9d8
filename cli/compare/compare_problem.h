#pragma once
// The problem of `rapt compare`: its inputs in every dtype that is needed, and the exact call.
#include <map>
#include <string>
#include <vector>

#include "cli/attend/attend_input.h"
#include "cli/compare/compare_arguments.h"
#include "cli/compare/compared_call.h"
#include "cli/input/mask_input.h"
#include "cli/input/tensor_input.h"

namespace rapt::cli {

class CompareProblem {
 public:
  // Reads or makes the inputs and reads the masks. Throws Failure, and Error as plan() of the exact
  // call.
  CompareProblem(const CompareArguments& arguments, TensorInput& files);
  CompareProblem(const CompareProblem&) = delete;
  CompareProblem& operator=(const CompareProblem&) = delete;

  // The exact call with inputs of a dtype; with d_output if gradients are wanted. Throws
  // Error(memory_limit) for the memory of converted inputs.
  ComparedCall exact_call(DType dtype);
  ComparedCall exact_call() { return exact_call(dtype()); }

  DType dtype() const { return inputs_.query.dtype; }
  const std::string& input_text() const { return input_text_; }  // where the inputs are from
  const std::vector<std::string>& masks() const { return masks_.specs; }
  double scale() const;
  bool gradients() const { return d_output_.defined(); }
  uint64_t seed() const { return seed_; }
  const Context& context() const { return context_; }  // of one thread
  const std::vector<int64_t>& output_shape() const { return output_shape_; }

  int64_t q_len() const { return inputs_.query.shape[inputs_.query.rank - 2]; }
  int64_t k_len() const { return inputs_.key.shape[inputs_.key.rank - 2]; }
  int64_t head_dim() const { return inputs_.query.shape[inputs_.query.rank - 1]; }
  int64_t value_dim() const { return output_shape_.back(); }
  int64_t heads() const;  // matrices of the output

 private:
  struct Converted {
    Tensor query, key, value, d_output;
  };
  void read(const CompareArguments& arguments, TensorInput& files);
  void draw_d_output(MemoryBudget& budget);

  Inputs inputs_;
  MaskInput masks_;
  Tensor d_output_;
  AttentionOptions options_;
  Context context_;
  std::string input_text_;
  std::vector<int64_t> output_shape_;
  uint64_t seed_ = 0;
  MemoryBudget& budget_;
  std::map<DType, Converted> converted_;
};

}  // namespace rapt::cli
