#pragma once
// BertNormalizer of the package tokenizers: what a text is made of before it is cut into words.
//
//   clean_text            controls are dropped, white space becomes a blank
//   handle_chinese_chars  blanks around ideographs
//   strip_accents         canonical decomposition (NFD) without marks
//   lowercase             each character by itself
//
// Source: huggingface/tokenizers, normalizers/bert.rs; character tables: dev/record_bert_tables.py.
#include <cstdint>
#include <string_view>
#include <vector>

namespace rapt::text {

// A character of a normalised text, and the bytes of the text that it stands for.
struct NormalCharacter {
  char32_t value;
  uint32_t bytes;
  size_t begin;
};

class BertNormalizer {
 public:
  struct Steps {
    bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lowercase = true;
  };

  explicit BertNormalizer(const Steps& steps) : steps_(steps) {}

  const Steps& steps() const { return steps_; }

  // Replaces `normal` by the part [begin, end) of a text, which is valid UTF-8.
  void normalize(std::string_view text, size_t begin, size_t end,
                 std::vector<NormalCharacter>& normal) const;

 private:
  Steps steps_;
};

// How BertPreTokenizer cuts words.
enum class WordPart : uint8_t { letter, blank, punctuation };

WordPart word_part_of(char32_t character);

}  // namespace rapt::text
