#include "text/wordpiece/bert_normalizer.h"

#include <algorithm>
#include <array>
#include <span>

#include "io/text/utf8.h"
#include "text/wordpiece/character_tables.h"

namespace rapt::text {
namespace {

// Most texts are mostly ASCII.
constexpr char32_t kAsciiEnd = 0x80;

WordPart find_word_part(char32_t c) {
  if (is_separator(c)) return WordPart::blank;
  return is_punctuation(c) ? WordPart::punctuation : WordPart::letter;
}

std::array<WordPart, kAsciiEnd> word_parts_of_ascii() {
  std::array<WordPart, kAsciiEnd> parts;
  for (char32_t c = 0; c < kAsciiEnd; ++c) parts[c] = find_word_part(c);
  return parts;
}

// A printable ASCII character or a blank changes in one way alone, to lower case.
bool is_plain(char32_t c) { return c >= 0x20 && c < 0x7F; }

// Adds characters to a normalised text, one by one.
class Normalization {
 public:
  Normalization(const BertNormalizer::Steps& steps, std::vector<NormalCharacter>& normal)
      : steps_(steps), normal_(normal) {}

  // Adds a character that stays as it is.
  void add_plain(NormalCharacter c) {
    end_marks();
    normal_.push_back(c);
  }

  void add(NormalCharacter c) {
    if (steps_.clean_text) {
      if (is_dropped(c.value)) return;
      if (becomes_blank(c.value)) c.value = ' ';
    }
    const bool apart = steps_.handle_chinese_chars && is_chinese(c.value);
    const NormalCharacter blank{.value = ' ', .bytes = c.bytes, .begin = c.begin};
    if (apart) add_plain(blank);
    if (steps_.strip_accents)
      add_stripped(c);
    else
      add_lowercase(c);
    if (apart) normal_.push_back(blank);
  }

  // Sorts the marks at the end by their classes, as NFD has them. The package exchanges the marks
  // alone: the places that they come from stay in the order of the text.
  void end_marks() {
    if (marks_ > 1) {
      const auto run = std::span(normal_).last(marks_);
      sorted_.clear();
      for (const NormalCharacter& mark : run) sorted_.push_back(mark.value);
      std::ranges::stable_sort(sorted_, {}, mark_rank);
      for (size_t i = 0; i < run.size(); ++i) run[i].value = sorted_[i];
    }
    marks_ = 0;
  }

 private:
  void add_stripped(NormalCharacter c) {
    const Decomposition parts = strip_accent(c.value);
    if (parts.count == 0 && ends_mark_run(c.value)) end_marks();
    for (int i = 0; i < parts.count; ++i) {
      c.value = parts.parts[i];
      if (mark_rank(c.value) == 0) {
        end_marks();
        add_lowercase(c);
      } else {
        normal_.push_back(c);  // a mark has no lower case
        ++marks_;
      }
    }
  }

  void add_lowercase(NormalCharacter c) {
    if (!steps_.lowercase) return normal_.push_back(c);
    const Decomposition lower = lowercase_of(c.value);
    for (int i = 0; i < lower.count; ++i) {
      c.value = lower.parts[i];
      normal_.push_back(c);
    }
  }

  const BertNormalizer::Steps& steps_;
  std::vector<NormalCharacter>& normal_;
  size_t marks_ = 0;  // the marks at the end that are not sorted yet
  std::vector<char32_t> sorted_;
};

}  // namespace

WordPart word_part_of(char32_t character) {
  static const std::array<WordPart, kAsciiEnd> ascii = word_parts_of_ascii();
  return character < kAsciiEnd ? ascii[character] : find_word_part(character);
}

void BertNormalizer::normalize(std::string_view text, size_t begin, size_t end,
                               std::vector<NormalCharacter>& normal) const {
  normal.clear();
  Normalization normalization(steps_, normal);
  for (size_t at = begin; at < end;) {
    const auto lead = static_cast<unsigned char>(text[at]);
    if (is_plain(lead)) {
      const bool capital = steps_.lowercase && lead >= 'A' && lead <= 'Z';
      normalization.add_plain(
          {.value = capital ? lead + char32_t{'a' - 'A'} : lead, .bytes = 1, .begin = at});
      ++at;
      continue;
    }
    const CodePoint c = decode_utf8(text.substr(at));
    normalization.add({.value = c.value, .bytes = static_cast<uint32_t>(c.bytes), .begin = at});
    at += c.bytes;
  }
  normalization.end_marks();
}

}  // namespace rapt::text
