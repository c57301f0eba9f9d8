#pragma once
// A text, or a pair of texts, as the tokens that a model reads: with the special tokens that the
// tokenizer's template has around them, cut to a length, and with the places that tokens come from.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "rapt/text/tokenizer.h"

namespace rapt::text {

// The bytes [begin, end) of a text.
struct ByteSpan {
  int64_t begin, end;
  bool operator==(const ByteSpan&) const = default;
};

inline constexpr int kTemplateToken = -1;  // Encoding::texts of a token of the template

// One element per token.
struct Encoding {
  std::vector<int64_t> ids;     // 0 to vocabulary() - 1
  std::vector<int64_t> types;   // token_type_ids: those of the template, else 0
  std::vector<ByteSpan> spans;  // the place in its text; [0, 0) of a token of the template
  std::vector<int> texts;       // the text that it comes from, 0 or 1, or kTemplateToken
  bool cut = false;             // were there more tokens than EncodeOptions::most_tokens?
};

// What differs from the default.
struct EncodeOptions {
  bool special_tokens = true;  // those of the template
  // 0: any number. Else the texts are cut from their ends until all tokens are at most so many, the
  // longer one first, as the package tokenizers does with "longest_first".
  int64_t most_tokens = 0;
};

// Ids, types and special tokens are those of the package tokenizers. Spans count bytes, where the
// package counts characters. A token of BPE that is a part of a character has the span
// of the character. Throws Error(argument) as Tokenizer::encode(), and for a limit below the
// special tokens.
Encoding encode_texts(const Tokenizer& tokenizer, std::string_view text,
                      std::optional<std::string_view> second = std::nullopt,
                      const EncodeOptions& options = {});

}  // namespace rapt::text
