#pragma once
// Names that must be different: JSON and ZIP can both say one twice.
#include <algorithm>
#include <string>
#include <vector>

namespace rapt {

// A name that two entries have, name_of(entry) being a reference to each one's; null: none. By
// sorting, since a table of hashes would take more memory and could be aimed at.
template <class Entries, class NameOf>
const std::string* repeated_name(const Entries& entries, NameOf name_of) {
  std::vector<const std::string*> names;
  names.reserve(entries.size());
  for (const auto& entry : entries) names.push_back(&name_of(entry));
  std::sort(names.begin(), names.end(), [](const auto* a, const auto* b) { return *a < *b; });
  const auto at = std::adjacent_find(names.begin(), names.end(),
                                     [](const auto* a, const auto* b) { return *a == *b; });
  return at == names.end() ? nullptr : *at;
}

}  // namespace rapt
