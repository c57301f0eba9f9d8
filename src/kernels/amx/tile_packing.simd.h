#pragma once
// Packs operands of tile products (tile_products.simd.h) in the order of their use: panels of two
// tiles with 32 rows or columns together, one panel per part (tile_parts.simd.h).
//
//   rows       A of a product over dims       [rows / 32][dims / 32][parts][2][16 rows][32 dims]
//   columns    B of a product over dims       [rows / 32][dims / 32][parts][2][16 pairs of dims]
//                                             [16 rows][2]
//   values     A of a product over rows       [rows / 32][dims / 32][parts][2][16 dims][32 rows]
//   pairs      B of a product over rows       [rows / 32][dims / 32][parts][2][16 pairs of rows]
//                                             [16 dims][2], row r with row r + 16
//
// Rows are paired so that one permutation of two vectors of queries brings weights into the same
// order: two keys for sums over keys, the two halves of a key's 32 queries otherwise.
//
// Elements beyond the operand, up to whole panels, are 0.
#include <type_traits>

#include "kernels/amx/tile_parts.simd.h"

namespace rapt::RAPT_ISA {
namespace {

inline constexpr int64_t kTile = 1024, kPanel = 2 * kTile;  // bytes
inline constexpr int64_t kStep = 32;                        // rows, columns or sums of a panel
inline constexpr int64_t kTileRow = 64;                     // bytes

RAPT_INLINE int64_t panels(int64_t n) { return (n + kStep - 1) / kStep; }

// Bytes of the panels of all parts, for rows and for weights, which may have more parts; and bytes
// of an element of each.
template <class S>
inline constexpr int64_t kRowPanels = S::kParts* kPanel;
template <class S>
inline constexpr int64_t kWeightPanels = S::kWeightParts* kPanel;
template <class S>
inline constexpr int64_t kElement = S::kParts* int64_t{sizeof(uint16_t)};
template <class S>
inline constexpr int64_t kWeight = S::kWeightParts* int64_t{sizeof(uint16_t)};

RAPT_INLINE void transpose_runs(Run (&runs)[16]) {
  F r[16];
  UNROLL_FOR (int i = 0; i < 16; ++i) r[i] = lanes_of_run(runs[i]);
  transpose(r);
  UNROLL_FOR (int i = 0; i < 16; ++i) runs[i] = run_of_lanes(r[i]);
}
RAPT_INLINE void store_tile(const Run (&runs)[16], char* tile) {
  UNROLL_FOR (int i = 0; i < 16; ++i) store_run(tile + i * kTileRow, runs[i]);
}

// The parts of 32 dims of row i; zeros if the row does not exist.
template <class S>
RAPT_INLINE void take_row(const void* from, int64_t row_stride, int64_t dim_stride, int64_t rows,
                          int64_t dims, int64_t i, int64_t d, Run (&parts)[S::kParts]) {
  if (i < rows)
    S::take(static_cast<const typename S::Stored*>(from) + i * row_stride + d * dim_stride,
            dim_stride, dims - d, parts);
  else
    UNROLL_FOR (int p = 0; p < S::kParts; ++p) parts[p] = zero_run();
}

// Sixteen rows from row i on.
template <class S>
RAPT_INLINE void take_rows(const void* from, int64_t row_stride, int64_t dim_stride, int64_t rows,
                           int64_t dims, int64_t i, int64_t d, Run (&runs)[S::kParts][16]) {
  for (int r = 0; r < 16; ++r) {
    Run parts[S::kParts];
    take_row<S>(from, row_stride, dim_stride, rows, dims, i + r, d, parts);
    UNROLL_FOR (int p = 0; p < S::kParts; ++p) runs[p][r] = parts[p];
  }
}

template <class S, bool kTranspose>
RAPT_INLINE void pack_over_dims(const void* from, int64_t row_stride, int64_t dim_stride,
                                int64_t rows, int64_t dims, int64_t padded_rows, void* to) {
  auto* panel = static_cast<char*>(to);
  for (int64_t i = 0; i < padded_rows; i += kStep)
    for (int64_t d = 0; d < dims; d += kStep, panel += kRowPanels<S>)
      for (int t = 0; t < 2; ++t) {
        Run runs[S::kParts][16];
        take_rows<S>(from, row_stride, dim_stride, rows, dims, i + 16 * t, d, runs);
        for (int p = 0; p < S::kParts; ++p) {
          if (kTranspose) transpose_runs(runs[p]);
          store_tile(runs[p], panel + p * kPanel + t * kTile);
        }
      }
}

// Which rows are a pair: r and r + 16, or neighbours.
enum class Pairs : uint8_t { halves, neighbours };

template <class S, bool kTranspose, Pairs kPairs>
RAPT_INLINE void pack_over_rows(const void* from, int64_t row_stride, int64_t dim_stride,
                                int64_t rows, int64_t dims, void* to) {
  auto* panel = static_cast<char*>(to);
  const RunOrder low = interleaving(0), high = interleaving(16);
  constexpr bool kNeighbours = kPairs == Pairs::neighbours;
  constexpr int64_t first = kNeighbours ? 2 : 1, second = kNeighbours ? 1 : 16;  // rows of a pair
  for (int64_t i = 0; i < rows; i += kStep)
    for (int64_t d = 0; d < dims; d += kStep, panel += kRowPanels<S>) {
      Run halves[2][S::kParts][16];
      for (int r = 0; r < 16; ++r) {
        Run even[S::kParts], odd[S::kParts];
        take_row<S>(from, row_stride, dim_stride, rows, dims, i + first * r, d, even);
        take_row<S>(from, row_stride, dim_stride, rows, dims, i + first * r + second, d, odd);
        UNROLL_FOR (int p = 0; p < S::kParts; ++p) {
          halves[0][p][r] = in_order(even[p], low, odd[p]);
          halves[1][p][r] = in_order(even[p], high, odd[p]);
        }
      }
      for (int t = 0; t < 2; ++t)
        for (int p = 0; p < S::kParts; ++p) {
          if (kTranspose) transpose_runs(halves[t][p]);
          store_tile(halves[t][p], panel + p * kPanel + t * kTile);
        }
    }
}

template <class S>
RAPT_NOINLINE void tile_pack_queries(const void* query, int64_t row_stride, int64_t dim_stride,
                                     int64_t rows, int64_t head_dim, float /* in the scores */,
                                     int64_t queries, void* query_t) noexcept {
  pack_over_dims<S, true>(query, row_stride, dim_stride, rows, head_dim, queries, query_t);
}
template <class S>
RAPT_NOINLINE void tile_pack_keys(const void* rows, int64_t row_stride, int64_t dim_stride,
                                  int64_t count, int64_t dims, void* packed) noexcept {
  pack_over_dims<S, false>(rows, row_stride, dim_stride, count, dims, count, packed);
}
template <class S>
RAPT_NOINLINE void tile_pack_values(const void* rows, int64_t row_stride, int64_t dim_stride,
                                    int64_t count, int64_t dims, void* packed) noexcept {
  pack_over_rows<S, true, Pairs::neighbours>(rows, row_stride, dim_stride, count, dims, packed);
}
template <class S>
RAPT_NOINLINE void tile_pack_pairs(const void* rows, int64_t row_stride, int64_t dim_stride,
                                   int64_t count, int64_t dims, void* packed) noexcept {
  pack_over_rows<S, false, Pairs::halves>(rows, row_stride, dim_stride, count, dims, packed);
}

// Finds 32 rows at a time, which lie side by side.
template <class S>
RAPT_INLINE void find_outside_of_columns(const typename S::Stored* rows, int64_t dim_stride,
                                         int64_t count, int64_t dims, uint64_t* bits) {
  for (int64_t i = 0; i < count; i += kStep) {
    uint64_t inside = 0xFFFFFFFF;
    for (int64_t d = 0; d < dims; ++d) {
      F low, high;
      S::widen(rows + i + d * dim_stride, 1, count - i, low, high);
      inside &= bits_of(is_inside(low)) | bits_of(is_inside(high)) << 16;
    }
    if (i % 64 == 0) bits[i / 64] = 0;
    bits[i / 64] |= (inside ^ 0xFFFFFFFF) << (i % 64);
  }
}

template <class S>
RAPT_NOINLINE void tile_find_outside(const void* from, int64_t row_stride, int64_t dim_stride,
                                     int64_t count, int64_t dims, uint64_t* bits) noexcept {
  const auto* row = static_cast<const typename S::Stored*>(from);
  if (row_stride == 1 && dim_stride != 1)
    return find_outside_of_columns<S>(row, dim_stride, count, dims, bits);
  for (int64_t i = 0; i < count; ++i, row += row_stride) {
    unsigned inside = 0xFFFF;
    for (int64_t d = 0; d < dims; d += kStep) {
      F low, high;
      S::widen(row + d * dim_stride, dim_stride, dims - d, low, high);
      inside &= static_cast<unsigned>(bits_of(is_inside(low)) & bits_of(is_inside(high)));
    }
    if (i % 64 == 0) bits[i / 64] = 0;
    bits[i / 64] |= uint64_t{inside != 0xFFFF} << (i % 64);
  }
}
template <class S>
RAPT_NOINLINE void tile_take_outside(const void* from, int64_t row_stride, int64_t dim_stride,
                                     int64_t count, int64_t dims, float* outside) noexcept {
  const auto* row = static_cast<const typename S::Stored*>(from);
  for (int64_t i = 0; i < count; ++i, row += row_stride, outside += dims)
    for (int64_t d = 0; d < dims; d += kStep) {
      F low, high;
      S::widen(row + d * dim_stride, dim_stride, dims - d, low, high);
      store_first(outside + d, only(mask_of(~bits_of(is_inside(low))), low), dims - d);
      store_first(outside + d + 16, only(mask_of(~bits_of(is_inside(high))), high), dims - d - 16);
    }
}

template <class S>
RAPT_INLINE F scaled(F weight) {
  return S::kWeightScale == 1 ? weight : mul(weight, F::splat(S::kWeightScale));
}

// A vector of weights, scaled for cutting into parts.
template <class S, Nan kNan = Nan::stays>
struct WeightParts {
  F parts[S::kWeightParts];
  RAPT_INLINE WeightParts(F weights) { cut_parts<kNan>(scaled<S>(weights), parts); }
};

// Stores two vectors of weights as a row of a tile, part by part: two keys make a row of B, the
// halves of a key's queries a row of A.
template <class S, Nan kNan = Nan::stays>
RAPT_INLINE void store_pair(const std::type_identity_t<WeightParts<S, kNan>>& even,
                            const std::type_identity_t<WeightParts<S, kNan>>& odd, char* to) {
  UNROLL_FOR (int p = 0; p < S::kWeightParts; ++p)
    store_run(to + p * kPanel, in_turn(even.parts[p], odd.parts[p]));
}

// Where the row of a key and its neighbour lies in weights of a tile as B, and that of a key as A.
template <class S>
RAPT_INLINE int64_t pair_row(int64_t key) {
  return (key & -kStep) * (kWeightPanels<S> / kStep) + (key & (kStep - 1)) / 2 * kTileRow;
}
template <class S>
RAPT_INLINE int64_t key_row(int64_t key) {
  return (key & -kStep) * (kWeightPanels<S> / kStep) + (key & (kStep - 1)) * kTileRow;
}

// Weights [keys][32 queries] as B of a product over keys:
// [keys / 32][parts][2][16 pairs of keys][16 queries][2].
template <class S>
RAPT_NOINLINE void tile_round_weights(const float* weights, int64_t keys, int64_t /* 32 */,
                                      void* to) noexcept {
  for (int64_t key = 0; key < panels(keys) * kStep; key += 2) {
    char* const row = static_cast<char*>(to) + pair_row<S>(key);
    UNROLL_FOR (int t = 0; t < 2; ++t)
      store_pair<S>(key < keys ? F::load(weights + key * kStep + 16 * t) : F::splat(0),
                    key + 1 < keys ? F::load(weights + (key + 1) * kStep + 16 * t) : F::splat(0),
                    row + t * kTile);
  }
}

// The same as A of a product over queries:
// [keys / 32][parts][2][16 keys][16 pairs of queries: q and q + 16].
template <class S>
RAPT_NOINLINE void tile_round_for_keys(const float* weights, int64_t keys, int64_t /* 32 */,
                                       void* to) noexcept {
  for (int64_t key = 0; key < panels(keys) * kStep; ++key) {
    const bool there = key < keys;
    store_pair<S>(there ? F::load(weights + key * kStep) : F::splat(0),
                  there ? F::load(weights + key * kStep + 16) : F::splat(0),
                  static_cast<char*>(to) + key_row<S>(key));
  }
}

// Of operands packed over rows.
template <class S>
RAPT_NOINLINE bool tile_all_finite(const void* packed, int64_t stride, int64_t count,
                                   int64_t /* in the stride */) noexcept {
  const auto* panel = static_cast<const char*>(packed);
  const char* const end = panel + panels(count) * panels(stride) * kRowPanels<S>;
  uint32_t bad = 0;
  // The first part decides.
  for (; panel < end; panel += kRowPanels<S>)
    for (int64_t at = 0; at < kPanel; at += kTileRow) bad |= not_finite(load_run(panel + at));
  return bad == 0;
}

}  // namespace
}  // namespace rapt::RAPT_ISA
