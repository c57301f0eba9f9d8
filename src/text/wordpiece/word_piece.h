#pragma once
// WordPiece (Wu et al. 2016, arXiv:1609.08144; BERT's tokenizer): a text is normalised and cut into
// words, and a word into the longest tokens of the vocabulary, from its beginning. Tokens that
// continue a word have a prefix, "##". A word that cannot be cut is one unknown token.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rapt/text/encoding.h"
#include "text/longest_match.h"
#include "text/wordpiece/bert_normalizer.h"

namespace rapt::text {

class WordPieceModel {
 public:
  struct Settings {
    BertNormalizer::Steps steps;
    std::string prefix = "##";
    uint32_t unknown;                   // the token of a word that cannot be cut
    size_t most_characters = 100;       // a longer word is unknown
    bool cleans_up = true;              // decoding draws punctuation to the word before it
    std::string decoder_prefix = "##";  // what decoding takes away
  };

  // `texts`: the tokens by id, different ones, which the model copies.
  WordPieceModel(const std::vector<std::string>& texts, Settings settings);
  WordPieceModel(WordPieceModel&&) noexcept = default;
  WordPieceModel& operator=(WordPieceModel&&) noexcept = default;

  const Settings& settings() const { return settings_; }

  // Appends the ids of a part [begin, end) of a text, and where they come from unless `spans` is
  // null.
  class Encoder {
   public:
    Encoder(const WordPieceModel& model, std::vector<int64_t>& ids, std::vector<ByteSpan>* spans)
        : model_(model), normalizer_(model.settings_.steps), ids_(ids), spans_(spans) {}
    void encode(std::string_view text, size_t begin, size_t end);

   private:
    void encode_normal();
    void end_word();
    bool cut_word();
    void add(uint32_t id, size_t first, size_t last);

    const WordPieceModel& model_;
    BertNormalizer normalizer_;
    std::vector<int64_t>& ids_;
    std::vector<ByteSpan>* spans_;
    std::vector<NormalCharacter> normal_;
    // The word at work: its UTF-8, where its characters begin in it, and where they come from.
    std::string word_;
    std::vector<size_t> begins_;
    std::vector<ByteSpan> sources_;
  };

  // A token as a part of a text that follows `is_first` or other tokens.
  std::string decoded(std::string_view token, bool is_first) const;

 private:
  Settings settings_;
  LongestMatch beginnings_, continuations_;  // the latter without their prefix
};

}  // namespace rapt::text
