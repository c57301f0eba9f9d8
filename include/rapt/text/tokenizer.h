#pragma once
// Text to token ids and back.
//
// Kinds that learn.h makes from a text: characters, where each character (a Unicode scalar value)
// is a token, and byte-level BPE by GPT-2's rules (Radford et al., 2019), where pairs of tokens are
// merged and the 256 bytes are where merging begins. tokenizer_file.h also reads BPE with byte
// fallback, where merging begins with characters and blanks are a part of words (SentencePiece,
// Kudo and Richardson, 2018), and WordPiece. Ids are those of Hugging Face's package tokenizers.
//
// Added tokens, such as <|endoftext|>, belong to a file beside its model. Where a text has the
// content of one, that is one token, whatever the model is.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rapt::text {

// What the tokens of a model are.
enum class TokenizerKind : uint8_t { characters, byte_level_bpe, byte_fallback_bpe, word_piece };

// Names of the kinds, by their value.
inline constexpr const char* kTokenizerKindNames[] = {"characters", "byte-level BPE",
                                                      "BPE with byte fallback", "WordPiece"};

// Immutable; a copy shares the vocabulary. Calls from several threads are safe.
class Tokenizer {
 public:
  struct Parts;  // src/text/parts.h
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  Tokenizer(const Tokenizer&) = default;
  Tokenizer& operator=(const Tokenizer&) = default;

  // The ids of the text, from 0 to vocabulary() - 1. The time grows linearly with the text; within
  // a piece of BPE (a word, a run of blanks) with n log n. Throws Error(argument): the text is not
  // UTF-8, or has a character that is not in a vocabulary of characters; the message says where.
  std::vector<int64_t> encode(std::string_view text) const;
  // The same, appended to `ids`, which keeps its elements when this throws.
  void encode(std::string_view text, std::vector<int64_t>& ids) const;

  // The bytes of all tokens. Those of BPE need not be UTF-8: StreamDecoder (stream_decoder.h)
  // returns whole characters. A file of byte fallback may say that decoding removes a blank at the
  // beginning. Throws Error(argument): an id out of range.
  std::string decode(std::span<const int64_t> ids) const;

  TokenizerKind kind() const;  // of its model
  int64_t vocabulary() const;  // how many tokens there are
  // The bytes of a token; they live as long as the tokenizer. Throws Error(argument).
  std::string_view token_bytes(int64_t id) const;
  // The id of an added token by its content: "<|endoftext|>".
  std::optional<int64_t> added_token(std::string_view content) const;

  // What the library's own files read.
  const Parts& parts() const { return *parts_; }

 private:
  std::shared_ptr<const Parts> parts_;
};

}  // namespace rapt::text
