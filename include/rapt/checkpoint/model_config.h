#pragma once
// config.json of Hugging Face transformers 5 for GPT2Config, LlamaConfig and Qwen3Config, as the
// spec of a language model (rapt/nn/language_model.h), and back.
//
// Absent keys and null have the defaults of transformers' classes. Positions are read from
// `rope_parameters`, or, as earlier versions wrote them, from `rope_theta` and `rope_scaling`. A
// value that changes the computation and that the model does not have (an activation, a kind of
// rope, a sliding window, quantised weights, ...) is rejected by its name. Other keys, which these
// classes do not compute with, are ignored.
#include <string>
#include <string_view>
#include <vector>

#include "rapt/nn/language_model.h"

namespace rapt::checkpoint {

// The limits of a config: bytes, and how deep objects and arrays may lie.
inline constexpr int64_t kMaxConfigBytes = 1 << 20;
inline constexpr int kMaxConfigDepth = 16;

// `file` is for messages. Throws Error(format) for text that is no config, Error(unsupported) for a
// value that the model does not have; both name the key.
nn::LanguageModelSpec read_model_config(std::string_view json,
                                        const std::string& file = "config.json");

// The value of `eos_token_id`, one token or several, which end a text; none where it is absent, as
// in what write_model_config() writes. Throws as read_model_config().
std::vector<int64_t> read_stop_tokens(std::string_view json,
                                      const std::string& file = "config.json");

// A config that AutoModelForCausalLM.from_pretrained() opens. `spec`: that of a model, with zeros
// and absent values replaced. `dtype`: of the tensors. Throws Error(unsupported) for what
// transformers does not have, Error(argument) for a spec that is not that of a model.
std::string write_model_config(const nn::LanguageModelSpec& spec, DType dtype);

}  // namespace rapt::checkpoint
