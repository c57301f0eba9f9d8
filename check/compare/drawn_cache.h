#pragma once
// A cache with drawn lengths, starts and block table (rapt/cached_keys.h). Key j of sequence s is
//
//   cache[table[s, slot / page_keys], ..., slot mod page_keys, :]
//   slot = (starts[s] + j) mod capacity
//
// Some sequences are empty and some are full. Pages are in random order, and some belong to no
// sequence. Rows of the cache that belong to no key hold NaN, and entries of the block table that
// belong to no key name no page, so that reading them shows. Shares no code with the library.
#include "check/spec/cache_spec.h"
#include "check/tensors/arrays.h"

namespace check {

class DrawnCache {
 public:
  DrawnCache(Random& random, const CacheSpec& spec, int64_t sequences, int64_t capacity);

  Tensor lengths;      // [sequences] i32 or i64
  Tensor block_table;  // [sequences, pages of a sequence] i32 or i64; absent without pages
  Tensor starts;       // [sequences] i32 or i64; absent if all are 0

  int64_t length(int64_t sequence) const { return lengths_[static_cast<size_t>(sequence)]; }

  // The cache [pages, ..., page_keys, dim] that holds the rows [sequences, ..., capacity, dim] of
  // all keys. Of sequences that share a page, the last one is stored.
  Tensor stored(const Tensor& rows) const;

  // The rows [sequences, ..., capacity, dim] that a call finds in the cache; 0 beyond a length.
  Tensor found(const Tensor& cache) const;

  // [..., all keys, dim]: such rows without those beyond a length, sequence after sequence.
  Tensor joined(const Tensor& rows) const;

 private:
  void draw_lengths(Random& random);
  void draw_table(Random& random, bool shared);
  void draw_block_table(Random& random);
  // Calls visit(sequence, key, page, row in the page) for every key.
  template <class Visit>
  void for_each_key(const Visit& visit) const;

  const int64_t sequences_, capacity_, page_keys_;
  int64_t pages_ = 0;
  Dims lengths_, starts_;  // [sequences]
  Dims table_;             // [sequences, pages of a sequence], every entry a page
};

}  // namespace check
