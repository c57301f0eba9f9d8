#pragma once
// A BPE with byte fallback of a file, with the normalizer, pre_tokenizer and decoder that belong to
// it.
#include <string>

#include "text/bpe/byte_fallback_bpe.h"
#include "text/file/read_vocabulary.h"

namespace rapt::text {

// `json`: the whole file. Throws Error(format, unsupported).
ByteFallbackBpe read_byte_fallback(const nlohmann::json& json, const Vocabulary& vocabulary,
                                   const std::string& file);

// What a token stands for: "<0xE4>" for a byte, U+2581 in it for a blank.
std::string bytes_of_piece(const std::string& text);

}  // namespace rapt::text
