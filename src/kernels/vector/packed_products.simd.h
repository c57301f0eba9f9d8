#pragma once
// The products of layers (rapt/product.h) in register tiles.
//
// The right side is packed in panels of kPanelVectors vectors of columns, [terms][columns], the
// left side in tiles of kTileRows rows, [terms][rows]. A step of the inner loop reads the next
// elements of both, so that neither depends on how far apart the caller's rows are. Where the
// output has few columns, the left side is read in place: packing it would take a quarter of the
// time.
#include "kernels/vector/products.simd.h"
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// With 256 terms, a panel of 2 vectors is 16 KiB (32 KiB with vectors of 16 lanes).
constexpr int kPanelVectors = 2;
template <class V>
constexpr int kTileRows = rows_of_tile<V, kPanelVectors>();

// Vectors that hold a column of a tile. Their elements behind it belong to the next column or tile,
// which is written later, or to kLanes elements of padding.
template <class V>
constexpr int kTileParts = (kTileRows<V> + static_cast<int>(V::kLanes) - 1) /
                           static_cast<int>(V::kLanes);

// Loads kLanes terms of up to kLanes rows of a tile: r[y] holds term y of all rows.
template <class V, class S>
RAPT_INLINE void load_terms(const typename S::Stored* rows, int64_t row_stride, int64_t term_stride,
                            int64_t count, int64_t terms, V (&r)[V::kLanes]) {
  constexpr int kSome = kTileRows<V> < V::kLanes ? kTileRows<V> : static_cast<int>(V::kLanes);
  if (term_stride == 1 && count >= kSome && terms >= V::kLanes) {
    UNROLL_FOR (int x = 0; x < V::kLanes; ++x)
      r[x] = x < kSome ? S::load(rows + x * row_stride) : V::splat(0);
    transpose(r);
    return;
  }
  load_transposed<V, S>(rows, row_stride, term_stride, count, terms, r);
}

// Prefetches a term that is read later. Beyond the last one this is harmless.
constexpr int64_t kTermsAhead = 8;
template <class Stored>
RAPT_INLINE void prefetch_term(const Stored* term, int64_t count) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(Stored));
  for (int64_t i = 0; i < count; i += kLine) prefetch(term + i);
}

// Packs rows whose terms lie side by side, or at any distance.
template <class V, class S, class E = typename V::Element>
RAPT_INLINE void pack_row_tiles(const typename S::Stored* left, int64_t row_stride,
                                int64_t term_stride, int64_t rows, int64_t terms, E* packed) {
  constexpr int64_t kRows = kTileRows<V>;
  for (int64_t i = 0; i < rows; i += kRows, left += kRows * row_stride)
    for (int64_t k = 0; k < terms; k += V::kLanes) {
      V r[kTileParts<V>][V::kLanes];
      UNROLL_FOR (int part = 0; part < kTileParts<V>; ++part) {
        const int64_t first = part * V::kLanes;
        const auto* block = left + first * row_stride + k * term_stride;
        load_terms<V, S>(block, row_stride, term_stride, rows - i - first, terms - k, r[part]);
        prefetch_rows<V>(block + kRows * row_stride, row_stride, term_stride);
      }
      const int64_t some = smaller(terms - k, V::kLanes);
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) {
        if (y >= some) break;
        UNROLL_FOR (int part = 0; part < kTileParts<V>; ++part)
          store(packed + y * kRows + part * V::kLanes, r[part][y]);
      }
      packed += some * kRows;
    }
}

// Packs rows that lie side by side. A term of several tiles is read at once: terms may be a
// multiple of 4 KiB apart, and an L1 holds 8 such lines. As many tiles can be written at once.
template <class V, class S, class E = typename V::Element>
RAPT_INLINE void pack_term_rows(const typename S::Stored* left, int64_t term_stride, int64_t rows,
                                int64_t terms, E* packed) {
  constexpr int64_t kLanes = V::kLanes, kRows = kTileRows<V>, kGroup = 8 * kRows;
  for (int64_t begin = 0; begin < rows; begin += kGroup, left += kGroup) {
    const int64_t some = smaller(rows - begin, kGroup);
    const auto* term = left;
    E* column = packed + begin * terms;
    for (int64_t k = 0; k < terms; ++k, term += term_stride, column += kRows) {
      prefetch_term(term + kTermsAhead * term_stride, some);
      E* out = column;
      for (int64_t i = 0; i < some; i += kRows, out += terms * kRows)
        UNROLL_FOR (int part = 0; part < kTileParts<V>; ++part) {
          const int64_t first = part * kLanes, at = i + first;
          const V v = at + kLanes <= some ? S::load(term + at)
                      : at < some         ? S::load_first(term + at, some - at)
                                          : V::splat(0);
          if (k + 1 < terms)
            store(out + first, v);
          else  // the next tile begins behind the last term
            store_first(out + first, v, kRows - first);
        }
    }
  }
}

// Packs `rows` rows; those that the last tile lacks hold any numbers.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void pack_left(const void* from, int64_t row_stride, int64_t term_stride,
                             int64_t rows, int64_t terms, E* packed) noexcept {
  const auto* left = static_cast<const typename S::Stored*>(from);
  if (row_stride == 1 && term_stride != 1)
    pack_term_rows<V, S>(left, term_stride, rows, terms, packed);
  else
    pack_row_tiles<V, S>(left, row_stride, term_stride, rows, terms, packed);
}

// Packs columns whose terms lie side by side, or at any distance: rows of a weight.
template <class V, class S, class E = typename V::Element>
RAPT_INLINE void pack_column_panel(const typename S::Stored* right, int64_t column_stride,
                                   int64_t term_stride, int64_t columns, int64_t padded,
                                   int64_t terms, E* packed) {
  for (int64_t x = 0; x < padded; x += V::kLanes)
    for (int64_t k = 0; k < terms; k += V::kLanes) {
      const auto* block = right + x * column_stride + k * term_stride;
      V r[V::kLanes];
      load_transposed<V, S>(block, column_stride, term_stride, columns - x, terms - k, r);
      prefetch_rows<V>(block + V::kLanes * column_stride, column_stride, term_stride);
      E* const out = packed + k * padded + x;
      const int64_t some = smaller(terms - k, V::kLanes);
      UNROLL_FOR (int y = 0; y < V::kLanes; ++y) {
        if (y >= some) break;
        store(out + y * padded, r[y]);
      }
    }
}

// Packs whole panels of columns that lie side by side. Terms may be several KiB apart, and a single
// panel reads only 2 lines of each, which memory delivers slowly. Panels of 256 terms start in the
// same L1 set; four panels at once fit its ways.
constexpr int kPanelsAtOnce = 4;
template <class V, class S, class E = typename V::Element>
RAPT_INLINE void pack_whole_term_panels(const typename S::Stored* right, int64_t term_stride,
                                        int64_t terms, E* packed) {
  constexpr int64_t kLanes = V::kLanes, kWidth = kPanelVectors * kLanes;
  for (int64_t k = 0; k < terms; ++k, right += term_stride, packed += kWidth) {
    prefetch_term(right + kTermsAhead * term_stride, kPanelsAtOnce * kWidth);
    for (int64_t p = 0; p < kPanelsAtOnce; ++p)
      UNROLL_FOR (int x = 0; x < kPanelVectors; ++x)
        store(packed + p * kWidth * terms + x * kLanes, S::load(right + p * kWidth + x * kLanes));
  }
}

// Packs one panel of columns that lie side by side.
template <class V, class S, class E = typename V::Element>
RAPT_INLINE void pack_term_panel(const typename S::Stored* right, int64_t term_stride,
                                 int64_t columns, int64_t padded, int64_t terms, E* packed) {
  constexpr int64_t kLanes = V::kLanes;
  const bool whole = columns >= kPanelVectors * kLanes;
  for (int64_t k = 0; k < terms; ++k, right += term_stride, packed += padded) {
    prefetch_term(right + kTermsAhead * term_stride, padded);
    if (whole)
      UNROLL_FOR (int x = 0; x < kPanelVectors; ++x)
        store(packed + x * kLanes, S::load(right + x * kLanes));
    else
      for (int64_t x = 0; x < padded; x += kLanes)
        store(packed + x, S::load_first(right + x, columns - x));
  }
}

// Packs `columns` columns. The last panel has whole vectors; columns that it lacks are 0.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void pack_right(const void* from, int64_t column_stride, int64_t term_stride,
                              int64_t columns, int64_t terms, E* packed) noexcept {
  constexpr int64_t kLanes = V::kLanes, kWidth = kPanelVectors * kLanes;
  const auto* right = static_cast<const typename S::Stored*>(from);
  for (int64_t c = 0; c < columns; c += kWidth) {
    const int64_t rest = columns - c,
                  padded = smaller((rest + kLanes - 1) / kLanes * kLanes, kWidth);
    if (column_stride == 1 && rest >= kPanelsAtOnce * kWidth) {
      pack_whole_term_panels<V, S>(right + c, term_stride, terms, packed + c * terms);
      c += (kPanelsAtOnce - 1) * kWidth;
    } else if (column_stride == 1) {
      pack_term_panel<V, S>(right + c, term_stride, rest, padded, terms, packed + c * terms);
    } else {
      pack_column_panel<V, S>(right + c * column_stride, column_stride, term_stride, rest, padded,
                              terms, packed + c * terms);
    }
  }
}

// acc += one term: a column of each tile by a row of the panel.
template <class V, int Tiles, int Rows, int Vectors, class E = typename V::Element>
RAPT_INLINE void add_term(const E* left, int64_t row_stride, int64_t tile_stride, const E* right,
                          V (&acc)[Tiles][Rows][Vectors]) {
  V part[Vectors];
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    part[x] = V::load(right + x * V::kLanes);
    pin(part[x]);
  }
  UNROLL_FOR (int t = 0; t < Tiles; ++t)
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      const V l = V::splat(left[t * tile_stride + r * row_stride]);
      UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[t][r][x] = fma(l, part[x], acc[t][r][x]);
    }
}

// Adds `rows` rows of `from`, `stride` apart; all rows of the tiles if `kAll`.
template <class V, bool kAll, int Tiles, int Rows, int Vectors, class E = typename V::Element>
RAPT_INLINE void add_tiles(const E* from, int64_t stride, int64_t rows,
                           V (&acc)[Tiles][Rows][Vectors]) {
  UNROLL_FOR (int t = 0; t < Tiles; ++t)
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      if (!kAll && r >= rows) break;
      UNROLL_FOR (int x = 0; x < Vectors; ++x)
        acc[t][r][x] = add(V::load(from + (t * Rows + r) * stride + x * V::kLanes), acc[t][r][x]);
    }
}

// The next panel, which the tiles of this one prefetch: it comes from the L3, and the first tile
// would wait for each line of it.
template <class E>
struct Ahead {
  const E* next;
  int64_t step;  // elements per 4 terms of a tile
};

// `Tiles` tiles of the left side by a panel, from row `first` on. Only `rows` of the tile's rows
// exist in the output, all if `kAll`. Not inlined: in the loop over tiles, g++ 12 makes code that
// is 6 % slower (AVX2, AMD Zen 3).
template <class V, int Tiles, int Rows, int Vectors, bool kPacked, bool kAll,
          class E = typename V::Element>
RAPT_NOINLINE void multiply_tiles(const LeftTiles<E>& side, const E* right, int64_t terms,
                                  int64_t rows, const Ahead<E>& ahead, const TileStore<E>& to,
                                  int64_t first) {
  constexpr int64_t kLanes = V::kLanes, kColumns = Vectors * kLanes, kStep = kTileRows<V>;
  const int64_t row_stride = kPacked ? 1 : side.row_stride, tile = side.tile_stride;
  const int64_t term_stride = kPacked ? kStep : 1;
  const E* left = side.data + first / kStep * tile;
  const E* const sums = to.sums ? to.sums + first * to.sums_stride : nullptr;
  E* const out = to.out + first * to.stride;
  for (int64_t r = 0; r < rows; ++r) {  // what is read and written behind the loop
    prefetch(out + r * to.stride);
    if (sums) prefetch(sums + r * to.sums_stride);
  }
  V acc[Tiles][Rows][Vectors];
  UNROLL_FOR (int t = 0; t < Tiles; ++t)
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[t][r][x] = V::splat(0);
  int64_t k = 0;
  const E* next = ahead.next + first / kStep * (terms / 4) * ahead.step;
  for (; k + 4 <= terms; k += 4, right += 4 * kColumns, next += ahead.step) {
    prefetch(next);
    UNROLL_FOR (int i = 0; i < 4; ++i)
      add_term<V>(left + i * term_stride, row_stride, tile, right + i * kColumns, acc);
    left += 4 * term_stride;
  }
  for (; k < terms; ++k, left += term_stride, right += kColumns)
    add_term<V>(left, row_stride, tile, right, acc);
  if (sums) {
    add_tiles<V, kAll>(sums, to.sums_stride, rows, acc);
  } else {  // -0 becomes 0, as where sums begin at 0
    UNROLL_FOR (int t = 0; t < Tiles; ++t)
      UNROLL_FOR (int r = 0; r < Rows; ++r)
        UNROLL_FOR (int x = 0; x < Vectors; ++x) acc[t][r][x] = add(V::splat(0), acc[t][r][x]);
  }
  if (to.bias)
    UNROLL_FOR (int x = 0; x < Vectors; ++x) {
      const V bias = V::load(to.bias + x * kLanes);
      UNROLL_FOR (int t = 0; t < Tiles; ++t)
        UNROLL_FOR (int r = 0; r < Rows; ++r) acc[t][r][x] = add(acc[t][r][x], bias);
    }
  const int64_t stride = to.stride;
  if (to.add) add_tiles<V, kAll>(out, stride, rows, acc);
  UNROLL_FOR (int t = 0; t < Tiles; ++t)
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      if (!kAll && r >= rows) break;
      UNROLL_FOR (int x = 0; x < Vectors; ++x)
        store(out + (t * Rows + r) * stride + x * kLanes, acc[t][r][x]);
    }
}

// All tiles by a panel. A panel of one vector takes two tiles at once, whose chains hide each
// other's latency.
template <class V, int Vectors, bool kPacked, class E = typename V::Element>
RAPT_NOINLINE void multiply_panel(const LeftTiles<E>& left, const E* right, int64_t terms,
                                  int64_t rows, const TileStore<E>& to) noexcept {
  constexpr int kRows = kTileRows<V>, kTiles = Vectors == 1 && kRows < 12 ? 2 : 1;
  constexpr int64_t kColumns = Vectors * V::kLanes;
  const Ahead<E> ahead{right + terms * kColumns, 4 * kColumns * kRows / (rows + kRows)};
  int64_t i = 0;
  for (; i + kTiles * kRows <= rows; i += kTiles * kRows)
    multiply_tiles<V, kTiles, kRows, Vectors, kPacked, true>(left, right, terms, kRows, ahead, to,
                                                             i);
  for (; i + kRows <= rows; i += kRows)
    multiply_tiles<V, 1, kRows, Vectors, kPacked, true>(left, right, terms, kRows, ahead, to, i);
  if constexpr (kPacked) {
    const int64_t rest = rows - i;
    if (rest > 6)
      multiply_tiles<V, 1, kRows, Vectors, true, false>(left, right, terms, rest, ahead, to, i);
    else if (rest > 2)
      multiply_tiles<V, 1, 6, Vectors, true, false>(left, right, terms, rest, ahead, to, i);
    else if (rest > 0)
      multiply_tiles<V, 1, 2, Vectors, true, false>(left, right, terms, rest, ahead, to, i);
  }
}

template <class V, class E = typename V::Element>
void multiply_panel_of(const LeftTiles<E>& left, const E* right, int64_t terms, int64_t rows,
                       int64_t columns, const TileStore<E>& to) noexcept {
  static_assert(kPanelVectors == 2);
  const bool whole = columns == kPanelVectors * V::kLanes;
  const auto multiply = left.row_stride == 1
                            ? (whole ? multiply_panel<V, 2, true> : multiply_panel<V, 1, true>)
                            : (whole ? multiply_panel<V, 2, false> : multiply_panel<V, 1, false>);
  multiply(left, right, terms, rows, to);
}

// sums [Tiles * kTileRows] += the sums of packed tiles over their terms, which are summed first.
// Only `rows` exist. Several tiles at once hide the latency of each other's chains.
template <class V, int Tiles, class E = typename V::Element>
RAPT_INLINE void add_sums_of_tiles(const E* packed, int64_t terms, int64_t rows, E* sums) {
  constexpr int kRows = kTileRows<V>, kParts = kTileParts<V>;
  V sum[Tiles][kParts];
  UNROLL_FOR (int t = 0; t < Tiles; ++t)
    UNROLL_FOR (int part = 0; part < kParts; ++part) sum[t][part] = V::splat(0);
  for (int64_t k = 0; k < terms; ++k)
    UNROLL_FOR (int t = 0; t < Tiles; ++t)
      UNROLL_FOR (int part = 0; part < kParts; ++part)
        sum[t][part] =
            add(sum[t][part], V::load(packed + (t * terms + k) * kRows + part * V::kLanes));
  UNROLL_FOR (int t = 0; t < Tiles; ++t)
    UNROLL_FOR (int part = 0; part < kParts; ++part) {
      const int64_t first = part * V::kLanes;
      const int64_t n = smaller(smaller(kRows, rows - t * kRows) - first, V::kLanes);
      E* const out = sums + t * kRows + first;
      store_first(out, add(V::load_first(out, n), sum[t][part]), n);
    }
}

// sums [rows] += the sums of the packed rows over their terms.
template <class V, class E = typename V::Element>
RAPT_NOINLINE void add_left_sums(const E* packed, int64_t terms, int64_t rows, E* sums) noexcept {
  constexpr int kTiles = 4, kRows = kTileRows<V>;
  int64_t i = 0;
  for (; i + kTiles * kRows <= rows; i += kTiles * kRows)
    add_sums_of_tiles<V, kTiles>(packed + i * terms, terms, kTiles * kRows, sums + i);
  for (; i < rows; i += kRows)
    add_sums_of_tiles<V, 1>(packed + i * terms, terms, rows - i, sums + i);
}

}  // namespace
}  // namespace rapt::RAPT_ISA
