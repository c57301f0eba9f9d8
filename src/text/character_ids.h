#pragma once
// The tokens of single characters. Sorted, and not hashed: nobody who makes a file can make it
// slow.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace rapt::text {

class CharacterIds {
 public:
  struct Entry {
    char32_t character;
    uint32_t id;
  };
  static constexpr int64_t kNone = -1;

  // Any order; each character once.
  explicit CharacterIds(std::vector<Entry> entries);

  // kNone: no token is this character.
  int64_t find(char32_t character) const;
  size_t size() const { return entries_.size(); }

 private:
  std::vector<Entry> entries_;  // by character
  std::array<int64_t, 128> ascii_ids_;
};

}  // namespace rapt::text
