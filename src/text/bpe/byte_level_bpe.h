#pragma once
// Byte-level BPE: a text is cut into pieces (split_pieces.h), and the bytes of a piece are merged.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/bpe/merge_table.h"
#include "text/bpe/piece_merger.h"
#include "text/bpe/remembered_words.h"
#include "text/bpe/split_pieces.h"
#include "text/longest_match.h"

namespace rapt::text {

// What differs from GPT-2's.
struct ByteLevelOptions {
  PiecePattern pattern = PiecePattern::gpt2;
  // Tokens that a piece becomes without merging, by their bytes: "ignore_merges".
  LongestMatch whole_pieces = {};
};

class ByteLevelBpe {
 public:
  // byte_ids: the token of each byte. merges: by rank. tokens: more than any id.
  ByteLevelBpe(const std::array<uint32_t, 256>& byte_ids, std::vector<Merge> merges, size_t tokens,
               ByteLevelOptions options = {})
      : byte_ids_(byte_ids),
        merges_(std::move(merges)),
        table_(merges_, tokens),
        options_(std::move(options)) {}

  const std::vector<Merge>& merges() const { return merges_; }
  const ByteLevelOptions& options() const { return options_; }

  // Encodes parts of a text one after the other, and remembers the pieces that it has met.
  class Encoder {
   public:
    Encoder(const ByteLevelBpe& model, std::vector<int64_t>& ids)
        : model_(model), ids_(ids), merger_(model.table_) {}
    // Appends the ids of a part [begin, end) of a text that outlives the encoder.
    void encode(std::string_view text, size_t begin, size_t end);

   private:
    void encode_piece(std::string_view piece);

    const ByteLevelBpe& model_;
    std::vector<int64_t>& ids_;
    PieceMerger merger_;
    RememberedWords met_;  // ranges of ids_
  };

 private:
  std::array<uint32_t, 256> byte_ids_;
  std::vector<Merge> merges_;
  MergeTable table_;
  ByteLevelOptions options_;
};

}  // namespace rapt::text
