#pragma once
// The mask over the gathered rows of a segment: which query meets which key in this round, and has
// not met it in an earlier one. It works on positions and on numbers of chunks (chunk_slots.h), all
// of 32 bits.
#include <cstdint>

#include "rapt/mask/mask.h"

namespace rapt {

// Arrays of queries are readable for this many elements beyond their end.
inline constexpr int64_t kReadBeyond = 16;

struct PairMask final : public Mask {
  // Query i may attend to the keys at positions below limit[i]; 0 or less: to none.
  const int32_t* limit;      // [queries]
  const int32_t* self;       // [queries] a position that it does not attend to; null: none
  const int32_t* positions;  // [keys]; below 0: no key
  // Numbers of chunks [relations][stride]: of earlier rounds, and behind them, if `same_chunks`, of
  // this round.
  const int32_t *query_chunk, *query_before, *key_chunk;
  int64_t query_stride, key_stride;
  int64_t earlier_rounds;
  bool same_chunks;
  // Slots between two heads of the call, which are chunks. 0: one head, whose rows are sorted by
  // `query_chunk` and `key_chunk` of this round.
  int64_t chunk;
  uint8_t* attended;  // [queries] set to 1 where a query attends to a key; null: not wanted

  static const Declaration kDeclaration;
  const Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(Shape leading, int64_t q_len, int64_t k_len) const override;
  void bind(const Head& head, BoundMask* bound) const noexcept override;
  KeyRange key_range(const BoundMask& bound, Positions queries) const noexcept override;
  Cover cover(const BoundMask& bound, Positions queries, Positions keys) const noexcept override;
  void exclude(const BoundMask& bound, Positions queries, Positions keys,
               uint64_t* bits) const noexcept override;

  // Whether the query in a row of the segment attends to the key in one, both of the same head.
  bool attends(int64_t query_row, int64_t key_row) const noexcept {
    return positions[key_row] >= 0 && (pairs_of_16(query_row, key_row) & 1) != 0;
  }

 private:
  uint64_t pairs_of_16(int64_t query, int64_t key) const noexcept;
};

}  // namespace rapt
