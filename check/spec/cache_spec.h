#pragma once
// How the keys and values of sequences lie in a cache, as plain data (rapt/cached_keys.h).
#include <cstdint>
#include <string>

namespace check {

// The most pages of a cache that no block table names.
inline constexpr int64_t kMostUnusedPages = 3;

struct CacheSpec {
  bool circular =
      false;  // key 0 of a sequence lies in any slot, and the last slot is followed by 0
  int64_t page_keys = 0;  // of pages that a block table names; 0: each sequence has one page
  bool shared = false;    // the block tables of all sequences begin with the same pages

  bool operator==(const CacheSpec&) const = default;
};

// The text in a descriptor: "linear", "circular", "pages(16,circular,shared)".
std::string to_string(const CacheSpec& cache);

}  // namespace check
