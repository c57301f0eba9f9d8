#pragma once
// A language model with drawn parameters and a tokenizer of characters, in a folder.
#include <string>

#include "rapt/nn/language_model.h"

namespace rapt::cli_test {

inline constexpr const char* kTinyCharacters = "\n abcdeé";  // 8 characters
inline constexpr int64_t kTinyContext = 24;

// Two layers with two heads. The tokens are the characters, by ascending code point.
void save_tiny_language_model(const std::string& folder,
                              nn::LanguageModelLayout layout = nn::LanguageModelLayout::gpt2,
                              DType dtype = DType::f32);

}  // namespace rapt::cli_test
