#pragma once
// The prefilter (kernels/prefilter/prefilter.h) within a call: all keys are rounded once, before
// the first tile; queries with the tile that they belong to. Whether a score is computed or left
// out as -inf makes no difference to any result: what is left out is not above a bound at which
// nothing gets a weight.
//
// Used where scores are products alone, of sparse normalisers, and where enough queries share a key
// to pay for its rounding.
#include <algorithm>

#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"
#include "kernels/prefilter/prefilter.h"

namespace rapt {

// The prefilter of a call that is computed by these kernels; null: none.
const PrefilterKernels* prefilter_of(const Problem& p, const AttentionOptions& options,
                                     const Kernels<float>& kernels);
inline const PrefilterKernels* prefilter_of(const Problem&, const AttentionOptions&,
                                            const Kernels<double>&) {
  return nullptr;
}

// Rows and their dims, as rounded keys have them.
inline int64_t prefilter_rows(int64_t k_len) {
  return ceil_div(k_len, kPrefilterGroup) * kPrefilterGroup;
}
inline int64_t prefilter_dims(int64_t head_dim) {
  return ceil_div(head_dim, kPrefilterDims) * kPrefilterDims;
}
// Bytes of a rounded query: its numbers, and four numbers of 32 bits.
inline int64_t prefilter_query_bytes(int64_t head_dim) { return prefilter_dims(head_dim) + 16; }

// Rounds all keys, if there is a prefilter. Throws Error(cancelled).
template <class E>
void round_keys(const ForwardCall<E>& call, const Context& context);

// What a tile of queries needs for it.
struct PrefilterTile {
  std::byte* rounded =
      nullptr;    // [queries] of prefilter_query_bytes(); null: no prefilter for this tile
  int pause = 0;  // so many blocks are computed as a whole
  int last_pause = 0;
};

template <class E>
class Prefilter {
 public:
  explicit Prefilter(const ForwardCall<E>& call) noexcept
      : p_(call.problem), kernels_(call.kernels.prefilter) {
    if (!used()) return;  // a small call has no time for divisions
    matrices_ = KeyMatrices(p_, p_.key);
    keys_ = reinterpret_cast<const uint8_t*>(call.workspace + call.layout.prefilter_keys);
    groups_ = reinterpret_cast<const KeyGroup*>(call.workspace + call.layout.prefilter_groups);
  }

  bool used() const noexcept { return kernels_ != nullptr; }

  // The keys of a head, of which `begin` is the first.
  void begin_head(const int64_t* index, int64_t begin) noexcept {
    if (used()) matrix_ = matrices_.of(index, p_.leading_rank), begin_ = begin;
  }

  // The queries [head_dim][queries] as they are multiplied, to `to`.
  void round(const void* query_t, int64_t queries, std::byte* to,
             PrefilterTile& tile) const noexcept {
    if constexpr (sizeof(E) == sizeof(float)) {
      tile.rounded = to;
      kernels_->round_queries(static_cast<const float*>(query_t), p_.head_dim, queries,
                              queries_at(to, queries));
    }
  }

  // The scores [keys][queries] of a tile and keys of which few are above the bounds [queries], and
  // -inf for others that are not above them; false, and nothing is done: it does not pay.
  bool scores(PrefilterTile& tile, int vectors, int64_t queries, Positions keys, const E* bounds,
              const void* query_t, const std::byte* key, int64_t key_stride, E* scores,
              E* block_max) const noexcept {
    if constexpr (sizeof(E) == sizeof(float)) {
      if (tile.pause > 0) {
        --tile.pause;
        return false;
      }
      // Where a query has not met a key yet, all that its tile meets is computed.
      for (int64_t i = 0; i < queries; ++i)
        if (bounds[i] == -__builtin_inff()) return false;
      constexpr int64_t kStride = kMostBlockKeys + 1;
      int32_t found[kMaxVectors * kStride], counts[kMaxVectors];
      const int64_t groups = prefilter_rows(p_.k_len) / kPrefilterGroup;
      const int64_t number = kernels_->find(
          queries_at(tile.rounded, queries), bounds, vectors, p_.head_dim,
          keys_ + matrix_ * prefilter_rows(p_.k_len) * prefilter_dims(p_.head_dim),
          groups_ + matrix_ * groups, begin_ + keys.start, keys.count, found, kStride, counts);
      if (static_cast<double>(number) > kMostShare * static_cast<double>(keys.count * vectors)) {
        tile.pause = tile.last_pause = std::min(2 * tile.last_pause + 1, kLongestPause);
        return false;
      }
      tile.last_pause = 0;
      kernels_->scores(static_cast<const float*>(query_t), reinterpret_cast<const float*>(key),
                       key_stride, keys.count, p_.head_dim, vectors, found, kStride, counts, scores,
                       block_max);
      return true;
    }
    return false;
  }

 private:
  // Of the vectors of scores, as many as can be computed one by one in the time of all.
  static constexpr double kMostShare = 0.6;
  // Blocks: a prefilter that never pays costs 2 % then, and one that begins to is soon found.
  static constexpr int kLongestPause = 15;

  PrefilterQueries queries_at(std::byte* at, int64_t queries) const noexcept {
    auto* const columns = at + prefilter_dims(p_.head_dim) * queries;
    const auto column = [&](int nth) {
      return reinterpret_cast<float*>(columns + nth * queries * int64_t{sizeof(float)});
    };
    return {reinterpret_cast<int8_t*>(at), reinterpret_cast<int32_t*>(columns), column(1),
            column(2), column(3)};
  }

  const Problem& p_;
  const PrefilterKernels* kernels_;
  KeyMatrices matrices_;
  const uint8_t* keys_ = nullptr;
  const KeyGroup* groups_ = nullptr;
  int64_t matrix_ = 0, begin_ = 0;
};

}  // namespace rapt
