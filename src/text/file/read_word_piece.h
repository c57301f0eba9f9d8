#pragma once
// A WordPiece of a file, with the normalizer, pre_tokenizer and decoder that belong to it.
#include "text/file/read_vocabulary.h"
#include "text/wordpiece/word_piece.h"

namespace rapt::text {

// `json`: the whole file. Throws Error(format, unsupported).
WordPieceModel read_word_piece(const nlohmann::json& json, const Vocabulary& vocabulary,
                               const std::string& file);

}  // namespace rapt::text
