#pragma once
// Finds repeated names, which both JSON and ZIP can contain.
#include <algorithm>
#include <string>
#include <vector>

namespace rapt {

// A name that two entries have; null: none. name_of(entry) returns a reference to the name of an
// entry. Sorts the names: a hash table would take more memory, and an attacker could force
// collisions.
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
