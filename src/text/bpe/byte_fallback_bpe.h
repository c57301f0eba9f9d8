#pragma once
// BPE with byte fallback, as SentencePiece's models in tokenizer.json (Llama 2, Mistral, Gemma):
// blanks are U+2581, merging begins with characters, and a character that is no token becomes the
// tokens of its bytes, "<0xE4>". A text is not cut into pieces before it is merged.
//
// Source: huggingface/tokenizers, models/bpe/model.rs, pre_tokenizers/metaspace.rs; SentencePiece:
// Kudo and Richardson 2018, arXiv:1808.06226.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe/merge_table.h"
#include "text/bpe/piece_merger.h"
#include "text/bpe/remembered_words.h"
#include "text/character_ids.h"

namespace rapt::text {

inline constexpr char32_t kBlankMark = 0x2581;
inline constexpr std::string_view kBlankMarkBytes = "\xE2\x96\x81";

// Where a blank is put that the text does not have. A part is what stands between added tokens.
enum class BlankInFront : uint8_t {
  never,
  text,          // of a text that begins with a part, unless that begins with a blank
  parts,         // of each part, unless it begins with a blank
  parts_anyway,  // of each part
};

struct ByteFallbackOptions {
  BlankInFront blank_in_front = BlankInFront::never;
  bool decoding_strips_blank = false;  // one at the beginning of a text
};

class ByteFallbackBpe {
 public:
  static constexpr uint32_t kNoToken = static_cast<uint32_t>(-1);

  // byte_ids: the tokens of bytes; kNoToken where no text needs one. texts: the tokens as they are
  // written, by id; merges: by rank, of no byte.
  ByteFallbackBpe(CharacterIds characters, const std::array<uint32_t, 256>& byte_ids,
                  const std::vector<Merge>& merges, const std::vector<const std::string*>& texts,
                  ByteFallbackOptions options);

  const ByteFallbackOptions& options() const { return options_; }

  // Does the part of a text that begins at `begin` get a blank in front?
  bool adds_blank(std::string_view text, size_t begin) const;

  // Encodes parts of a text one after the other, and remembers the words that it has met.
  class Encoder {
   public:
    Encoder(const ByteFallbackBpe& model, std::vector<int64_t>& ids)
        : model_(model), ids_(ids), merger_(model.table_) {}
    // Appends the ids of a part [begin, end) of a text that outlives the encoder.
    void encode(std::string_view text, size_t begin, size_t end);

   private:
    void encode_word(std::string_view word, bool blank_in_front);
    void add(char32_t character, std::string_view bytes);

    const ByteFallbackBpe& model_;
    std::vector<int64_t>& ids_;
    PieceMerger merger_;
    RememberedWords met_;  // ranges of ids_
  };

 private:
  CharacterIds characters_;
  std::array<uint32_t, 256> byte_ids_;
  MergeTable table_;
  ByteFallbackOptions options_;
  bool words_are_apart_;  // does no merge join a blank to what stands before it?
};

}  // namespace rapt::text
