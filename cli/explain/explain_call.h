#pragma once
// The call of the library that `rapt explain` shows: its arguments, read from the command line.
#include <vector>

#include "cli/explain/explain_arguments.h"
#include "cli/explain/explain_step.h"
#include "cli/input/mask_input.h"
#include "cli/input/tensor_input.h"
#include "cli/input/variant_input.h"
#include "rapt/attention.h"
#include "rapt/rotary.h"

namespace rapt::cli {

// f64, rounded to the dtype of the computation: query [q_len, head_dim], key [k_len, head_dim],
// value [k_len, value_dim].
struct PlainInputs {
  Tensor query, key, value;
};

// `options` points into the other members.
struct ExplainedCall {
  // Adds steps up to query, key and value. Throws Failure and usage errors.
  ExplainedCall(const ExplainArguments& a, TensorInput& files, std::vector<Step>& steps);
  ExplainedCall(const ExplainedCall&) = delete;
  ExplainedCall& operator=(const ExplainedCall&) = delete;

  DType dtype;
  PlainInputs plain;
  MaskInput masks;
  Tensor bias;               // of `dtype`, absent without one
  Tensor query, key, value;  // plain, of `dtype`
  ScoreInput scores;
  MadeNormalizer normalizer;
  Rotary rotary;  // of --rotary
  AttentionOptions options;
};

}  // namespace rapt::cli
