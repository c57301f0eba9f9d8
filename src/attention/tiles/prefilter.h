#pragma once
// The int8 prefilter (kernels/prefilter/prefilter.h) within a call. All keys are rounded once,
// before the first query tile; queries are rounded with their tile. A score that is skipped becomes
// -inf. Only scores at or below a bound where no pair gets a weight are skipped, so the prefilter
// changes no result.
//
// prepare() (plan/prepare.h) uses it with sparse normalisers on the f32 fma route, if scores are
// plain products (no score function, bias or relative positions) and enough queries share a key to
// pay for its rounding. Prefilter is in the header because it is a template over E.
#include <algorithm>

#include "attention/plan/forward_call.h"
#include "attention/plan/key_matrices.h"
#include "base/rare.h"
#include "kernels/prefilter/prefilter.h"

namespace rapt {

// The padded numbers of rows and dims of rounded keys.
inline int64_t prefilter_rows(int64_t k_len) {
  return ceil_div(k_len, kPrefilterGroup) * kPrefilterGroup;
}
inline int64_t prefilter_dims(int64_t head_dim) {
  return ceil_div(head_dim, kPrefilterDims) * kPrefilterDims;
}
// Bytes of a rounded query: its int8 elements and four 32-bit numbers (PrefilterQueries).
inline int64_t prefilter_query_bytes(int64_t head_dim) { return prefilter_dims(head_dim) + 16; }

// Scratch of the prefilter, without the queries.
template <class E>
struct PrefilterPlaces {
  CallPlace<uint8_t> keys;     // [matrices * rows][dims], padded: rounded keys
  CallPlace<KeyGroup> groups;  // [matrices * rows / kPrefilterGroup]
  Place<E> rows;               // [kPrefilterGroup][head_dim]: keys of a group, if packed

  void reserve(ScratchPlan<E>& plan) {
    const Problem& p = plan.problem;
    if (!rare(plan.kernels.prefilter != nullptr)) return;
    const int64_t all = KeyMatrices(p, p.key).count * prefilter_rows(p.k_len);
    plan.call.place(keys, {all, prefilter_dims(p.head_dim)});
    plan.call.place(groups, {all / kPrefilterGroup});
    if (!keys_in_place(p, plan.kernels.route))
      plan.worker.place(rows, {kPrefilterGroup, p.head_dim});
  }
};

// Rounds all keys of a call with a prefilter. Throws Error(cancelled).
template <class E>
void round_keys(const ForwardCall<E>& call, const Context& context);

// The prefilter's part of a query tile.
struct PrefilterTile {
  std::byte* rounded =
      nullptr;    // [queries] of prefilter_query_bytes(); null: no prefilter for this tile
  int pause = 0;  // blocks to compute without the prefilter before the next try
  int last_pause = 0;
};

template <class E>
class Prefilter {
 public:
  explicit Prefilter(const ForwardCall<E>& call) noexcept
      : p_(call.problem), kernels_(call.kernels.prefilter) {
    if (!used()) return;  // saves small calls the divisions below
    matrices_ = KeyMatrices(p_, p_.key);
    keys_ = call.at(call.layout.prefilter.keys);
    groups_ = call.at(call.layout.prefilter.groups);
  }

  bool used() const noexcept { return rare(kernels_ != nullptr); }

  // Selects the keys of a head; `begin` is the row of the first one.
  void begin_head(const int64_t* index, int64_t begin) noexcept {
    if (used()) matrix_ = matrices_.of(index, p_.leading_rank), begin_ = begin;
  }

  // Rounds the packed queries [head_dim][queries] of a tile to `to`, and enables the prefilter for
  // it.
  void round(const void* query_t, int64_t queries, std::byte* to,
             PrefilterTile& tile) const noexcept {
    if constexpr (sizeof(E) == sizeof(float)) {
      tile.rounded = to;
      kernels_->round_queries(static_cast<const float*>(query_t), p_.head_dim, queries,
                              queries_at(to, queries));
    }
  }

  // Computes the scores [keys][queries] of a tile if few of them can be above the bounds [queries].
  // Scores at or below their bound may become -inf. Returns false, with nothing written, where this
  // does not pay.
  bool scores(PrefilterTile& tile, int vectors, int64_t queries, Positions keys, const E* bounds,
              const void* query_t, const std::byte* key, int64_t key_stride, E* scores,
              E* block_max) const noexcept {
    if constexpr (sizeof(E) == sizeof(float)) {
      if (tile.pause > 0) {
        --tile.pause;
        return false;
      }
      // A bound of -inf: the query has attended to no key yet, so all scores of its tile are
      // computed.
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
  // If this share of the vectors of scores is computed one by one, it takes as long as all of them.
  static constexpr double kMostShare = 0.6;
  // In blocks. With it, a prefilter that never pays costs 2 %, and one that begins to pay is soon
  // used again.
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
