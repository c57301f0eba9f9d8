#pragma once
// What a KeyValueCache holds, as plain lists: the model with which cache_program.h compares it.
#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include "rapt/key_value_cache.h"

namespace check {

// Every appended row has a number of its own, the token, and every page that was ever taken.
class CacheModel {
 public:
  explicit CacheModel(const rapt::KeyValueCacheOptions& options)
      : options_(options), sequences_(static_cast<size_t>(options.sequences)) {}

  const std::vector<int64_t>& tokens(int64_t s) const { return of(s).tokens; }
  int64_t length(int64_t s) const { return static_cast<int64_t>(tokens(s).size()); }
  int64_t position(int64_t s) const { return of(s).position; }

  int64_t pages_in_use() const {
    std::set<int64_t> pages;
    for (const Sequence& one : sequences_) pages.insert(one.pages.begin(), one.pages.end());
    return static_cast<int64_t>(pages.size());
  }
  // Is this a state that the cache may be in? An append that leads to another one is rejected.
  bool fits() const {
    for (const Sequence& one : sequences_)
      if (static_cast<int64_t>(one.tokens.size()) > options_.capacity) return false;
    return !paged() || pages_in_use() <= options_.pages;
  }

  // Appends the tokens [first, first + count).
  void append(int64_t s, int64_t first, int64_t count) {
    Sequence& to = of(s);
    if (paged() && count > 0 && length(s) % options_.page_keys != 0 && holders(to.pages.back()) > 1)
      to.pages.back() = next_page_++;
    for (int64_t i = 0; i < count; ++i) to.tokens.push_back(first + i);
    to.position += count;
    while (pages_of(length(s)) > static_cast<int64_t>(to.pages.size()))
      to.pages.push_back(next_page_++);
    if (options_.end == rapt::CacheEnd::circular && length(s) > options_.capacity)
      to.tokens.erase(to.tokens.begin(), to.tokens.end() - options_.capacity);
  }
  void truncate(int64_t s, int64_t length) {
    Sequence& one = of(s);
    one.position -= static_cast<int64_t>(one.tokens.size()) - length;
    one.tokens.resize(static_cast<size_t>(length));
    one.pages.resize(static_cast<size_t>(pages_of(length)));
  }
  void clear(int64_t s) { of(s) = {}; }
  void share(int64_t from, int64_t to, int64_t length) {
    of(to) = of(from);
    truncate(to, length);
  }

 private:
  struct Sequence {
    std::vector<int64_t> tokens, pages;
    int64_t position = 0;
  };
  Sequence& of(int64_t s) { return sequences_[static_cast<size_t>(s)]; }
  const Sequence& of(int64_t s) const { return sequences_[static_cast<size_t>(s)]; }

  bool paged() const { return options_.page_keys > 0; }
  int64_t pages_of(int64_t length) const {
    return paged() ? (length + options_.page_keys - 1) / options_.page_keys : 0;
  }
  int64_t holders(int64_t page) const {
    return std::count_if(sequences_.begin(), sequences_.end(), [&](const Sequence& one) {
      return std::find(one.pages.begin(), one.pages.end(), page) != one.pages.end();
    });
  }

  rapt::KeyValueCacheOptions options_;
  std::vector<Sequence> sequences_;
  int64_t next_page_ = 0;
};

}  // namespace check
