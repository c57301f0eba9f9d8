#pragma once
// Tokenizers learned from a text.
#include <cstdint>
#include <string_view>

#include "rapt/text/tokenizer.h"

namespace rapt::text {

inline constexpr int64_t kByteTokens = 256;  // the smallest vocabulary of byte-level BPE

// The characters of the text, by ascending code point. Throws Error(argument): an empty text, or
// one that is not UTF-8.
Tokenizer learn_characters(std::string_view text);

// Byte-level BPE (Sennrich, Haddow, Birch, 2016, arXiv 1508.07909, algorithm 1, on bytes):
// `vocabulary` tokens, of which the first 256 are bytes in the order of GPT-2's vocabulary. Each
// further token is the most frequent pair of neighbours; of equally frequent ones that with the
// smallest ids. Fewer tokens where the text has no further pair.
//
// The merges are those of BpeTrainer of the package tokenizers with ByteLevel.alphabet() as its
// initial alphabet and the text as one sequence. Throws Error(argument): fewer than 256 tokens or
// more than 2^31 - 1, or a text that is not UTF-8.
Tokenizer learn_byte_level_bpe(std::string_view text, int64_t vocabulary);

}  // namespace rapt::text
