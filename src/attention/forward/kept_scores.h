#pragma once
// All weights of a few queries, and the attention that keys receive from these, without a second
// pass over the keys: a token against a cache is bound by reading them. The main pass keeps its
// masked scores where the weights are requested, or in scratch. After the last block, when the
// normaliser's state is final, they become weights, with the bits of weights_pass.cpp and
// received_pass.cpp.
//
// Not for custom normalisers, whose weights() may read more of a tile than its scores and state,
// and not for sparse ones, which skip scores. All rows of a head are in one work unit. The code is
// in the header because it is a template over E.
#include <algorithm>
#include <limits>

#include "attention/tiles/tile_rows.h"
#include "base/rare.h"

namespace rapt {

// Whether the main pass keeps the scores of a call with these captures, not yet `kept`.
template <class E>
bool keeps_scores(const CheckedCall& call, const Kernels<E>& kernels, const Tiling& tiling) {
  const Problem& p = call.problem;
  return wants_weights_of_few(call) && p.k_len > 0 && !p.query_starts &&
         tiling.units_per_head == 1 && !kernels.normalizer.custom && !kernels.normalizer.settle;
}

// Scratch of KeptScores.
template <class E>
struct KeptPlaces {
  Place<E> rows;         // [q_len][k_len]; absent: the requested weights hold the scores
  Place<uint64_t> bits;  // [tiles][k_len]: unmasked pairs; absent: no pair is masked out
  Place<E> state;        // [state_rows][lanes]: the normaliser's, of one query

  void reserve(ScratchPlan<E>& plan, const Captures& captures) {
    const Problem& p = plan.problem;
    const bool in_weights =
        captures.weights.wanted && captures.weights.stage == WeightsStage::weights;
    plan.worker.place_if(captures.received && !in_weights, rows, {p.q_len, p.k_len});
    plan.worker.place_if((captures.received || in_weights) && (plan.mask_slots > 0 || p.has_bias),
                         bits, {plan.tiles, p.k_len});
    plan.worker.place_if(captures.received || in_weights, state,
                         {plan.kernels.normalizer.state_rows, plan.tiling.lanes});
  }
};

template <class E>
class KeptScores {
 public:
  KeptScores(const ForwardCall<E>& call, const KeptPlaces<E>& places, ScoreTiles<E>& tiles) noexcept
      : call_(call),
        p_(call.problem),
        table_(call.kernels.table),
        places_(places),
        tiles_(tiles),
        used_(call.captures.kept) {
    if (!rare(used_)) return;
    const RequestedWeights& w = call.captures.weights;
    returns_scores_ = w.wanted && w.stage == WeightsStage::scores;
    finds_weights_ = call.captures.received || !returns_scores_;
    if (w.wanted && !returns_scores_) {
      rows_ = call.outputs.weights;
    } else if (finds_weights_) {
      rows_.data = tiles.at(places.rows);
      rows_.dtype = p_.result_dtype;
      std::fill_n(rows_.lead_strides, kMaxRank, 0);
      rows_.heads_per_group = 1;
      rows_.row_stride = p_.k_len;
      rows_.dim_stride = 1;
    }
  }

  // Before the first block of the nth tile of a work unit.
  void begin(QueryTile<E>& tile, int64_t n) noexcept {
    if (!rare(used_)) return;
    if (finds_weights_ && places_.bits.exists()) {
      tile.unmasked = tiles_.at(places_.bits, n);
      std::fill_n(tile.unmasked, p_.k_len, uint64_t{0});
    }
    // Without masks, every block of the sequence's keys will come. A cache has room for more keys.
    const int64_t first = call_.masks.empty() ? tiles_.sequence().k_len : 0;
    if (returns_scores_)
      fill(tile, first, call_.outputs.weights, -std::numeric_limits<E>::infinity());
    if (finds_weights_) fill(tile, first, rows_, E(0));
  }

  // Keeps the masked scores of a tile.
  void add(const QueryTile<E>& tile, const TileKeys& keys) noexcept {
    if (!rare(used_)) return;
    const Positions& at = keys.positions;
    if (tile.unmasked)
      for (int64_t j = 0; j < at.count; ++j)
        tile.unmasked[at[j]] = keys.partial ? keys.bits[j] : ~uint64_t{0};
    if (returns_scores_) {
      // Scores in log2 units (tile.h) are returned in natural units.
      constexpr double kLn2 = 0.6931471805599453;
      E* const factor = tile.hooks.log2_units ? tiles_.row(kMultiplier) : nullptr;
      if (factor) std::fill_n(factor, tile.queries, static_cast<E>(kLn2));
      store(tile, at, factor, ~uint64_t{0}, call_.outputs.weights);
    }
    if (finds_weights_) store(tile, at, nullptr, ~uint64_t{0}, rows_);
  }

  // After finish() of the normaliser: turns the kept scores of a tile into final weights. The hook
  // computes each weight from its score and its query's state alone, so the keys of a query fill
  // the lanes: they need no transposition, and no lane is empty.
  void finish(QueryTile<E>& tile) noexcept {
    if (!rare(used_) || !finds_weights_) return;
    const int64_t block = call_.tiling.block_keys, some = block * table_.lanes;
    const int64_t begin = tile.range.begin / block * block;
    const int64_t end =
        std::min((tile.range.end + block - 1) / block * block, tile.hooks.head->k_len);
    auto* const first = reinterpret_cast<E*>(tiles_.query_row(rows_, 0));
    for (int64_t i = 0; i < tile.positions.count; ++i) {
      E* const row = first + rows_.row_offset(tile.positions[i]);
      const Tile<E> of_query = query_alone(tile, i);
      for (int64_t key = begin; key < end; key += some)
        finish_keys(of_query, tile, i, {key, 1, std::min(some, end - key)}, row);
    }
  }

  // After finish() of all tiles: sum_i weight(i, j) for the queries of each head and each key j, in
  // the order of received_pass.cpp: lane by lane in E, a tile after the other, then over the lanes
  // in double.
  void sum_received() noexcept {
    const Operand& out = call_.outputs.received;
    if (!rare(used_) || !out.data) return;
    const int64_t queries = p_.head_queries(), lanes = std::min<int64_t>(table_.lanes, queries);
    const int64_t widest = int64_t{call_.tiling.long_vectors} * table_.lanes;
    const int last = p_.leading_rank - 1;
    const auto* const rows = reinterpret_cast<const E*>(tiles_.query_row(rows_, 0));
    const bool adds = call_.captures.adds_received;
    // Beyond the keys of a sequence in a cache, weights are 0.
    const int64_t keys = adds ? tiles_.sequence().k_len : p_.k_len;
    for (int64_t head = 0; head < p_.group_heads; ++head) {
      const int64_t to_head = last < 0 ? 0 : head * (out.lead_strides[last] / p_.group_heads);
      auto* const sums = reinterpret_cast<E*>(out.at(tiles_.offset_of(out) + to_head));
      for (int64_t j = 0; j < keys; ++j) {
        double total = 0;
        for (int64_t lane = 0; lane < lanes; ++lane) {
          E sum = 0;
          for (int64_t tile = 0; tile < queries; tile += widest) {
            E of_tile = 0;
            for (int64_t i = tile + lane; i < std::min(tile + widest, queries); i += lanes)
              of_tile += rows[rows_.row_offset(head * queries + i) + j * rows_.dim_stride];
            sum += of_tile;
          }
          total += sum;
        }
        E& received = sums[j * out.row_stride];
        received = static_cast<E>(adds ? received + total : total);
      }
    }
  }

 private:
  // Sets the columns of the keys from `key` on.
  void fill(const QueryTile<E>& tile, int64_t key, const Operand& rows, E value) const noexcept {
    auto* const first = reinterpret_cast<E*>(tiles_.query_row(rows, 0));
    for (int64_t i = 0; i < tile.positions.count; ++i) {
      E* const row = first + rows.row_offset(tile.positions[i]);
      for (int64_t j = key; j < p_.k_len; ++j) row[j * rows.dim_stride] = value;
    }
  }

  // The columns of some keys.
  static Operand columns(Operand rows, Positions keys) noexcept {
    rows.data = rows.at(keys.start * rows.dim_stride);
    return rows;
  }

  void store(const QueryTile<E>& tile, Positions keys, const E* factor, uint64_t present,
             const Operand& rows) const noexcept {
    store_rows<E>(tiles_, table_, tile.hooks.scores, keys.count, tile, factor, present,
                  columns(rows, keys));
  }

  // A tile with the state of one query in all lanes of a vector.
  Tile<E> query_alone(const QueryTile<E>& tile, int64_t query) const noexcept {
    Tile<E> alone = tile.hooks;
    alone.queries = table_.lanes;
    alone.scores = tiles_.at(call_.layout.scores);
    alone.state = tiles_.at(places_.state);
    for (int r = 0; r < call_.kernels.normalizer.state_rows; ++r)
      std::fill_n(alone.state + r * alone.queries, alone.queries,
                  tile.hooks.state[r * tile.queries + query]);
    return alone;
  }

  // Turns the kept scores of some keys into weights.
  void finish_keys(Tile<E> of_query, const QueryTile<E>& tile, int64_t query, Positions keys,
                   E* row) const noexcept {
    const int64_t stride = rows_.dim_stride;
    E* const kept = row + keys.start * stride;
    E* const weights = of_query.scores;
    of_query.keys = ceil_div(keys.count, of_query.queries);
    of_query.key_positions = keys;
    for (int64_t j = 0; j < keys.count; ++j) weights[j] = kept[j * stride];
    std::fill(weights + keys.count, weights + of_query.keys * of_query.queries, E(0));
    call_.kernels.normalizer.weights(call_.normalizer_object, of_query);
    // Adding +0 turns -0 into +0, as store_rows() does.
    if ((tile.attended >> query & 1) == 0)
      for (int64_t j = 0; j < keys.count; ++j) kept[j * stride] = E(0);
    else if (tile.unmasked)
      for (int64_t j = 0; j < keys.count; ++j)
        kept[j * stride] = (tile.unmasked[keys[j]] >> query & 1) ? weights[j] + E(0) : E(0);
    else
      for (int64_t j = 0; j < keys.count; ++j) kept[j * stride] = weights[j] + E(0);
  }

  const ForwardCall<E>& call_;
  const Problem& p_;
  const KernelTable<E>& table_;
  const KeptPlaces<E>& places_;
  ScoreTiles<E>& tiles_;
  const bool used_;
  bool returns_scores_ = false;  // the call returns scores
  bool finds_weights_ = false;   // kept scores become weights
  Operand rows_;                 // where scores are kept: row = query, dim = key
};

}  // namespace rapt
