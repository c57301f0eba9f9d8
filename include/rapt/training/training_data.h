#pragma once
// Texts as tokens to train on. The last tenth of each text is held out: it is evaluated and never
// trained on.
//
//   text       [ training ...................... | held out ]     cut between two characters
//   tokens     encoded separately, so no token spans the cut
//
// A tokenizer of characters knows the characters of whole texts, because it must encode them. A
// tokenizer of byte-level BPE is learned from the parts for training alone.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/text/tokenizer.h"

namespace rapt::training {

// A text and its name for messages, such as the path of its file.
struct NamedText {
  std::string name;
  std::string_view text;  // UTF-8
};

// Where the held-out part begins: the first character at or after nine tenths of the bytes.
size_t held_out_begin(std::string_view text) noexcept;

// FNV-1a of 64 bits over the bytes and the length of each text, in order. It tells texts apart that
// differ by accident; it is no cryptographic hash.
uint64_t hash_texts(std::span<const NamedText> texts) noexcept;

// What a token is.
enum class TokenizerKind : uint8_t { characters, byte_level_bpe };

// A tokenizer to learn.
struct TokenizerChoice {
  TokenizerKind kind = TokenizerKind::characters;  // what a token is
  int64_t vocabulary = 0;                          // of byte-level BPE
};

// Throws Error(argument) as rapt/text/learn.h.
text::Tokenizer learn_tokenizer(std::span<const NamedText> texts, const TokenizerChoice& choice);

// The tokens of a part of a text.
using Tokens = std::vector<int32_t>;

// Texts as tokens.
class TrainingData {
 public:
  // Throws Error(argument), with the name of the text, for one that the tokenizer cannot encode.
  TrainingData(std::span<const NamedText> texts, const text::Tokenizer& tokenizer);

  // By which the texts are encoded.
  const text::Tokenizer& tokenizer() const noexcept { return tokenizer_; }
  // The part for training of each text.
  std::span<const Tokens> training() const noexcept { return training_; }
  // The held-out part of each text.
  std::span<const Tokens> held_out() const noexcept { return held_out_; }
  // hash_texts() of the texts.
  uint64_t text_hash() const noexcept { return text_hash_; }
  // The bytes of text that a token stands for.
  int64_t bytes_of(int64_t token) const { return bytes_[static_cast<size_t>(token)]; }

 private:
  text::Tokenizer tokenizer_;
  uint64_t text_hash_;
  std::vector<Tokens> training_, held_out_;
  std::vector<int32_t> bytes_;  // of each token
};

}  // namespace rapt::training
