#include "rapt/training/training_data.h"

#include "io/quoted.h"
#include "rapt/error.h"
#include "rapt/text/learn.h"

namespace rapt::training {
namespace {

// FNV-1a (Fowler, Noll and Vo; RFC 9923).
constexpr uint64_t kFnvBasis = 0xcbf29ce484222325, kFnvPrime = 0x100000001b3;

uint64_t hash_byte(uint64_t hash, uint64_t byte) { return (hash ^ byte) * kFnvPrime; }

Tokens encode_part(const text::Tokenizer& tokenizer, const std::string& name,
                   std::string_view part) try {
  const std::vector<int64_t> ids = tokenizer.encode(part);
  return Tokens(ids.begin(), ids.end());
} catch (const Error& e) {
  throw Error(e.code(), path_text(name) + ": " + e.what(), e.argument());
}

}  // namespace

size_t held_out_begin(std::string_view text) noexcept {
  size_t at = text.size() - text.size() / 10;
  // Bytes 10xxxxxx continue a character.
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) ++at;
  return at;
}

uint64_t hash_texts(std::span<const NamedText> texts) noexcept {
  uint64_t hash = kFnvBasis;
  for (const NamedText& one : texts) {
    for (const char c : one.text) hash = hash_byte(hash, static_cast<unsigned char>(c));
    for (int shift = 0; shift < 64; shift += 8)
      hash = hash_byte(hash, (uint64_t{one.text.size()} >> shift) & 0xff);
  }
  return hash;
}

text::Tokenizer learn_tokenizer(std::span<const NamedText> texts, const TokenizerChoice& choice) {
  std::string all;
  for (const NamedText& one : texts)
    all += choice.kind == TokenizerKind::characters ? one.text
                                                    : one.text.substr(0, held_out_begin(one.text));
  return choice.kind == TokenizerKind::characters
             ? text::learn_characters(all)
             : text::learn_byte_level_bpe(all, choice.vocabulary);
}

TrainingData::TrainingData(std::span<const NamedText> texts, const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), text_hash_(hash_texts(texts)) {
  for (const NamedText& one : texts) {
    const size_t cut = held_out_begin(one.text);
    training_.push_back(encode_part(tokenizer_, one.name, one.text.substr(0, cut)));
    held_out_.push_back(encode_part(tokenizer_, one.name, one.text.substr(cut)));
  }
  const int64_t vocabulary = tokenizer_.vocabulary();
  for (int64_t id = 0; id < vocabulary; ++id)
    bytes_.push_back(static_cast<int32_t>(tokenizer_.token_bytes(id).size()));
}

}  // namespace rapt::training
