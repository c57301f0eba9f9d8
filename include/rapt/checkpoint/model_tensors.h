#pragma once
// The tensors of a language model by the names and shapes of transformers' state dicts.
//
//   gpt2          transformer.h.0.attn.c_attn.weight   [in, out]: a transposed view
//   llama, qwen3  model.layers.0.self_attn.q_proj.weight: a slice of in_proj_weight
//
// All are views of the parameters, for reading and for writing. A head that is the table of tokens
// is not among them, as transformers does not write it.
#include <vector>

#include "rapt/io/tensor_file.h"
#include "rapt/nn/language_model.h"

namespace rapt::checkpoint {

// The views must not outlive the model; those of a const model are read-only.
std::vector<NamedTensor> model_tensors(nn::LanguageModel& model);
std::vector<NamedTensor> model_tensors(const nn::LanguageModel& model);

// Copies `given` into the tensors of the same names. f32, f64, bf16 and f16 are converted. Three
// differences are accepted:
//   names without "transformer." or "model.": files of the model without its head, and GPT-2's own
//   buffers that hold nothing learned: *.attn.bias, *.attn.masked_bias, *.rotary_emb.inv_freq
//   lm_head.weight of a model whose head is the table of tokens
// Throws as load_tensors() (rapt/nn/state_dict.h), before anything is written.
void load_model_tensors(nn::LanguageModel& model, const std::vector<NamedTensor>& given);

}  // namespace rapt::checkpoint
