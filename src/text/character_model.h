#pragma once
// Characters as tokens.
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/character_ids.h"

namespace rapt::text {

class CharacterModel {
 public:
  explicit CharacterModel(CharacterIds ids) : characters_(std::move(ids)) {}

  class Encoder {
   public:
    Encoder(const CharacterModel& model, std::vector<int64_t>& ids) : model_(model), ids_(ids) {}
    // Appends the ids of a part [begin, end) of a text. Throws Error(argument) with the character
    // that is not in the vocabulary, and its offset in the text.
    void encode(std::string_view text, size_t begin, size_t end);

   private:
    const CharacterModel& model_;
    std::vector<int64_t>& ids_;
  };

 private:
  CharacterIds characters_;
};

}  // namespace rapt::text
