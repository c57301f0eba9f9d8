#include "text/character_ids.h"

#include <algorithm>

namespace rapt::text {

CharacterIds::CharacterIds(std::vector<Entry> entries) : entries_(std::move(entries)) {
  std::ranges::sort(entries_, {}, &Entry::character);
  ascii_ids_.fill(kNone);
  for (const Entry& entry : entries_)
    if (entry.character < ascii_ids_.size()) ascii_ids_[entry.character] = entry.id;
}

int64_t CharacterIds::find(char32_t character) const {
  if (character < ascii_ids_.size()) return ascii_ids_[character];
  const auto at = std::ranges::lower_bound(entries_, character, {}, &Entry::character);
  return at != entries_.end() && at->character == character ? at->id : kNone;
}

}  // namespace rapt::text
