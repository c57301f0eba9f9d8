#pragma once
// What `rapt attend` computes: tensors, masks and options, read and checked.
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

// The options look at the other members: a Problem that has moved keeps them, a copy would not.
struct Problem {
  Inputs inputs;
  MaskInput masks;
  LoadedTensor bias;
  std::string bias_file;
  ScoreInput scores;
  std::string normalizer_spec;
  std::optional<MadeNormalizer> normalizer;
  std::unique_ptr<Rotary> rotary;
  LoadedTensor query_starts, key_starts;  // of --packed: i64 [sequences + 1]
  AttentionOptions options;               // without what is to be captured
  Context context;                        // threads, and what stops a call

  // Once shapes are known to fit.
  std::vector<int64_t> leading;  // of the output
  int64_t q_len = 0, k_len = 0;
};

// Throws usage errors for what the options alone have wrong: numbers, names, the texts of masks.
void check_problem_options(const AttendArguments& arguments);

// Reads the files and checks that all of it fits together. An error of the library that one option
// causes says which.
Problem read_problem(const AttendArguments& arguments, TensorInput& files);

// Checks the problem with these options, and names `option` if they are refused.
void check_option(const Problem& problem, const AttentionOptions& options,
                  const std::string& option);

}  // namespace rapt::cli
