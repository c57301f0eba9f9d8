#pragma once
// One vector for a text, from the outputs of its tokens, as the package sentence-transformers makes
// it (Reimers & Gurevych 2019, arXiv:1908.10084).
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "rapt/tensor.h"

namespace rapt::model {

// How the rows of a text become one; names are those after "pooling_mode_" in the file.
enum class PoolingMode : uint8_t {
  mean_tokens,           // their mean
  cls_token,             // the first
  max_tokens,            // the greatest of each feature
  mean_sqrt_len_tokens,  // their sum over the square root of their number
};
inline constexpr const char* kPoolingNames[] = {"mean_tokens", "cls_token", "max_tokens",
                                                "mean_sqrt_len_tokens"};

// What modules.json and the files that it names say.
struct Pooling {
  PoolingMode mode = PoolingMode::mean_tokens;  // of the module Pooling
  bool normalize = false;                       // is there a module Normalize?
  int64_t longest = 0;  // max_seq_length of sentence_bert_config.json; 0: the model's own
};

// Without modules.json: the mean, as it is. Throws Error(format) for a file that is malformed,
// Error(unsupported) for other modules, unless there is one Pooling with one mode, and for settings
// that change texts: do_lower_case, default_prompt_name.
Pooling load_pooling(const std::string& folder);

// The text of a file by its path in a folder; nothing if it is not there.
using FolderFiles = std::function<std::optional<std::string>(const std::string& path)>;

// The same from texts; `name` stands for the folder in messages.
Pooling read_pooling(const FolderFiles& files, const std::string& name);

// Pools the rows [tokens, features] of texts that lie behind each other: [texts, features]. f32.
// `starts` [texts + 1]. A text without tokens gives zeros. Throws Error(shape) for starts that do
// not begin with 0, that decrease, or that do not end with the number of rows.
Tensor pool(const Pooling& pooling, const TensorView& rows, std::span<const int64_t> starts);

}  // namespace rapt::model
