#pragma once
// Characters as tokens.
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace rapt::text {

class CharacterModel {
 public:
  struct Entry {
    char32_t character;
    uint32_t id;
  };

  // Any order; each character once.
  explicit CharacterModel(std::vector<Entry> entries);

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
  static constexpr int64_t kNone = -1;
  int64_t find(char32_t character) const;

  std::vector<Entry> entries_;          // by character
  std::array<int64_t, 128> ascii_ids_;  // kNone: not in the vocabulary
};

}  // namespace rapt::text
