#pragma once
// What a tokenizer consists of.
#include <string>
#include <variant>
#include <vector>

#include "rapt/text/tokenizer.h"
#include "text/added_tokens.h"
#include "text/bpe/byte_fallback_bpe.h"
#include "text/bpe/byte_level_bpe.h"
#include "text/character_model.h"
#include "text/encoding/sequence_template.h"
#include "text/wordpiece/word_piece.h"

namespace rapt::text {

// In the order of TokenizerKind.
using TokenizerModel = std::variant<CharacterModel, ByteLevelBpe, ByteFallbackBpe, WordPieceModel>;

struct Tokenizer::Parts {
  std::vector<std::string> tokens;  // the bytes of each
  // The first of them are the vocabulary of the model; added tokens follow, and may be among it,
  // too.
  size_t model_tokens;
  TokenizerModel model;
  AddedTokens added;
  bool composes = false;  // is what stands between added tokens brought into normal form C?
  SequenceTemplate around = {};
};

}  // namespace rapt::text
