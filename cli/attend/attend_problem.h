#pragma once
// The problem of `rapt attend`: tensors, masks and options, read and checked.
#include <string>
#include <vector>

#include "cli/attend/attend_arguments.h"
#include "cli/attend/attend_input.h"
#include "cli/input/mask_input.h"
#include "cli/input/tensor_input.h"
#include "cli/input/variant_input.h"
#include "rapt/attention.h"
#include "rapt/catalogue.h"

namespace rapt::cli {

// The options point to the other members; a moved Problem keeps them valid, a copy would not.
struct Problem {
  Inputs inputs;
  MaskInput masks;
  LoadedTensor bias;
  std::string bias_file;
  ScoreInput scores;
  std::string normalizer_spec;
  std::optional<MadeNormalizer> normalizer;
  std::unique_ptr<Method> method;
  std::unique_ptr<Rotary> rotary;
  LoadedTensor query_starts, key_starts;  // of --packed: i64 [sequences + 1]
  AttentionOptions options;               // without captures
  Context context;                        // threads and cancellation

  // Set once shapes are known to fit.
  std::vector<int64_t> leading;  // of the output
  int64_t q_len = 0, k_len = 0;
};

// Throws usage errors that follow from the options alone: numbers, names, texts of masks.
void check_problem_options(const AttendArguments& arguments);

// Reads the files and checks that everything fits, captures aside.
Problem read_problem(const AttendArguments& arguments, TensorInput& files);

// The plan of the call with these options, captures included. An error that one option causes names
// that option.
Plan plan_of(const AttendArguments& arguments, const Problem& problem,
             const AttentionOptions& options);

}  // namespace rapt::cli
