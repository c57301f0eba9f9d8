#pragma once
// The two matrix products of attention for a tile with few queries, such as a token that attends to
// a cache. They read keys and values once, as they are stored, with their dimensions side by side.
//
//   S^T = K Q^T     keys fill the lanes: blocks of keys x dimensions are transposed in registers
//   O^T += V^T P^T  dimensions fill the lanes
//
// Operands and results have the layout of products.simd.h, where queries fill the lanes: with few
// queries most lanes would be empty. Each score is one chain of FMAs over head_dim, each block of
// an output one chain over its keys, so the bits are those of products.simd.h.
#include "kernels/vector/rows.simd.h"

namespace rapt::RAPT_ISA {
namespace {

// Values that are multiplied before the next ones: their rows and the sums stay in the L1.
constexpr int64_t kFewValues = kRunRows;

// Row n of an array of runs.
template <class Stored>
RAPT_INLINE const Stored* row_of(const RowRun* runs, int64_t n) {
  const RowRun& run = runs[n / kRunRows];
  return static_cast<const Stored*>(run.rows) + n % kRunRows * run.stride;
}

// Rows are read from memory in the order of their addresses, although they are multiplied in
// another: prefetchers follow a single stream, and lines are asked for far ahead.
template <class Stored>
class RowStream {
 public:
  // Dimensions [first, first + dims) of `rows` rows.
  RAPT_INLINE RowStream(const RowRun* runs, int64_t first, int64_t dims, int64_t rows)
      : runs_(runs), first_(first), dims_(dims), rows_(rows) {}
  // Reads the lines of the next rows, as far as there are any, when `elements` more elements than
  // before are to be multiplied.
  RAPT_INLINE void read(int64_t elements) {
    due_ += elements;
    for (; due_ >= dims_ && row_ < rows_; due_ -= dims_, ++row_) {
      const Stored* const now = row_of<Stored>(runs_, row_) + first_;
      const Stored* const ahead = row_of<Stored>(runs_ + kRunsAhead, row_) + first_;
      for (int64_t d = 0; d < dims_; d += kLine) {
        touch(now + d);
        prefetch_far(ahead + d);
      }
    }
  }

 private:
  static constexpr int64_t kLine = 64 / sizeof(Stored);
  const RowRun* runs_;
  int64_t first_, dims_, rows_, row_ = 0, due_ = 0;
};

// Blocks of V::kLanes keys x kFewDims dimensions, transposed: k[d] holds dimension d of all keys. A
// pair of bf16 is transposed as one element of 32 bits, which halves the number of shuffles.
template <class V, class S>
constexpr int64_t kFewDims = S::kPairs ? 2 * V::kLanes : V::kLanes;

// Adds the products of kFewDims dimensions of V::kLanes keys.
template <class V, class S, int Rows>
RAPT_INLINE void add_few_dims(const typename V::Element* query_t, int64_t queries,
                              const typename S::Stored* key, int64_t key_stride, V (&acc)[Rows]) {
  V k[V::kLanes];
  UNROLL_FOR (int x = 0; x < V::kLanes; ++x) k[x] = S::load_whole(key + x * key_stride);
  transpose(k);
  const auto add_dim = [&](V column, int64_t d) __attribute__((always_inline)) {
    UNROLL_FOR (int r = 0; r < Rows; ++r)
      acc[r] = fma(column, V::splat(query_t[d * queries + r]), acc[r]);
  };
  UNROLL_FOR (int y = 0; y < V::kLanes; ++y)
    if constexpr (S::kPairs) {
      add_dim(lower_bf16(k[y]), 2 * y);
      add_dim(upper_bf16(k[y]), 2 * y + 1);
    } else {
      add_dim(k[y], y);
    }
}

// Vectors of keys at a time. Their chains of FMAs hide each other's latency.
template <int Rows>
constexpr int kFewKeyVectors = Rows >= 5 ? 1 : 2;

// The last dimensions of a row, and rows of less than a vector of keys.
template <class V, class S, int Rows>
RAPT_INLINE void add_last_dims(const typename V::Element* query_t, int64_t queries,
                               const typename S::Stored* key, int64_t key_stride, int64_t keys,
                               int64_t dims, V (&acc)[Rows]) {
  for (int64_t d = 0; d < dims; d += V::kLanes) {
    V k[V::kLanes];
    load_transposed<V, S>(key + d, key_stride, 1, keys, dims - d, k);
    UNROLL_FOR (int y = 0; y < V::kLanes; ++y) {
      if (d + y >= dims) break;
      UNROLL_FOR (int r = 0; r < Rows; ++r)
        acc[r] = fma(k[y], V::splat(query_t[(d + y) * queries + r]), acc[r]);
    }
  }
}

// scores [keys][queries] of `Vectors` vectors of keys from `first` on; `most` becomes their
// maximum. Only `keys` of a single vector exist.
template <class V, class S, int Rows, int Vectors>
RAPT_INLINE void few_scores(const typename V::Element* query_t, int64_t queries, const RowRun* runs,
                            int64_t first, int64_t keys, int64_t head_dim,
                            RowStream<typename S::Stored>& ahead, typename V::Element* scores,
                            V& most) {
  static_assert(kRunRows % V::kLanes == 0);
  V acc[Vectors][Rows];
  UNROLL_FOR (int x = 0; x < Vectors; ++x)
    UNROLL_FOR (int r = 0; r < Rows; ++r) acc[x][r] = V::splat(0);
  const typename S::Stored* key[Vectors];
  int64_t stride[Vectors];
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    const int64_t n = first + x * V::kLanes;
    key[x] = row_of<typename S::Stored>(runs, n);
    stride[x] = runs[n / kRunRows].stride;
  }
  // The next keys are read meanwhile.
  int64_t d = 0;
  if (Vectors > 1 || keys == V::kLanes)
    for (; d + kFewDims<V, S> <= head_dim; d += kFewDims<V, S>) {
      ahead.read(Vectors * V::kLanes * kFewDims<V, S>);
      UNROLL_FOR (int x = 0; x < Vectors; ++x)
        add_few_dims<V, S, Rows>(query_t + d * queries, queries, key[x] + d, stride[x], acc[x]);
    }
  ahead.read(Vectors * V::kLanes * (head_dim - d));
  if (d < head_dim)
    UNROLL_FOR (int x = 0; x < Vectors; ++x)
      add_last_dims<V, S, Rows>(query_t + d * queries, queries, key[x] + d, stride[x],
                                smaller(keys, V::kLanes), head_dim - d, acc[x]);
  UNROLL_FOR (int x = 0; x < Vectors; ++x) {
    V of_key[V::kLanes];
    UNROLL_FOR (int r = 0; r < V::kLanes; ++r)
      of_key[r] = r < Rows ? acc[x][r < Rows ? r : 0] : V::splat(0);
    transpose(of_key);
    for (int64_t j = 0; j < smaller(keys, V::kLanes); ++j) {
      store(scores + (x * V::kLanes + j) * queries, of_key[j]);
      most = max(most, of_key[j]);
    }
  }
}

// `rows`: an array of RowRun, here and below.
template <class V, class S, int Rows, class E = typename V::Element>
RAPT_NOINLINE void scores_of_few(const void* query_t, const void* rows, int64_t /* in the runs */,
                                 int64_t keys, int64_t head_dim, E /* in the queries */, E* scores,
                                 E* block_max) noexcept {
  constexpr int64_t kKeys = kFewKeyVectors<Rows> * V::kLanes;
  const auto* runs = static_cast<const RowRun*>(rows);
  RowStream<typename S::Stored> ahead(runs, 0, head_dim, keys);
  ahead.read(kKeys * head_dim);
  V most = V::set(-__builtin_inf());
  int64_t j = 0;
  for (; j + kKeys <= keys; j += kKeys)
    few_scores<V, S, Rows, kFewKeyVectors<Rows>>(static_cast<const E*>(query_t), V::kLanes, runs, j,
                                                 kKeys, head_dim, ahead, scores + j * V::kLanes,
                                                 most);
  for (; j < keys; j += V::kLanes)
    few_scores<V, S, Rows, 1>(static_cast<const E*>(query_t), V::kLanes, runs, j,
                              smaller(keys - j, V::kLanes), head_dim, ahead, scores + j * V::kLanes,
                              most);
  store(block_max, most);
}

// Sums of values are kept in vectors of kFewDims dimensions: two vectors for pairs of bf16, the
// even dimensions in the first and the odd ones in the second.
template <class V, class S>
constexpr int kParts = S::kPairs ? 2 : 1;

// kFewDims dimensions of a row as vectors; `dims`: how many exist.
template <class V, class S, bool kWhole>
RAPT_INLINE void load_values(const typename S::Stored* value, int64_t dims,
                             V (&parts)[kParts<V, S>]) {
  if constexpr (!kWhole && S::kPairs) {
    typename S::Stored some[kFewDims<V, S>] = {};
    for (int64_t d = 0; d < dims; ++d) some[d] = value[d];
    load_values<V, S, true>(some, dims, parts);
  } else if constexpr (S::kPairs) {
    const V pairs = S::load_whole(value);
    parts[0] = lower_bf16(pairs), parts[1] = upper_bf16(pairs);
  } else {
    parts[0] = kWhole ? S::load_whole(value) : S::load_first(value, dims);
  }
}

// sums [groups][kParts][Rows][kLanes] += the products of some keys, for `Groups` of kFewDims
// dimensions.
template <class V, class S, int Rows, int Groups, bool kWhole>
RAPT_INLINE void add_few_values(const typename V::Element* weights, const typename S::Stored* value,
                                int64_t value_stride, int64_t keys, int64_t dims,
                                typename V::Element* sums) {
  constexpr int kCount = Groups * kParts<V, S>;
  V acc[kCount][Rows];
  UNROLL_FOR (int x = 0; x < kCount; ++x)
    UNROLL_FOR (int r = 0; r < Rows; ++r) acc[x][r] = V::load(sums + (x * Rows + r) * V::kLanes);
  for (int64_t j = 0; j < keys; ++j) {
    V v[Groups][kParts<V, S>];
    UNROLL_FOR (int g = 0; g < Groups; ++g)
      load_values<V, S, kWhole>(value + g * kFewDims<V, S>, dims, v[g]);
    UNROLL_FOR (int r = 0; r < Rows; ++r) {
      const V w = V::splat(weights[j * V::kLanes + r]);
      UNROLL_FOR (int x = 0; x < kCount; ++x)
        acc[x][r] = fma(v[x / kParts<V, S>][x % kParts<V, S>], w, acc[x][r]);
    }
    value += value_stride;
  }
  UNROLL_FOR (int x = 0; x < kCount; ++x)
    UNROLL_FOR (int r = 0; r < Rows; ++r) store(sums + (x * Rows + r) * V::kLanes, acc[x][r]);
}

// Groups of dimensions whose sums are in registers at a time.
template <class V, class S, int Rows>
constexpr int few_groups() {
  constexpr int kMost = V::kRegisters >= 32 ? 24 : 12;
  constexpr int kGroups = kMost / (Rows * kParts<V, S>);
  return kGroups < 1 ? 1 : kGroups > 4 ? 4 : kGroups;
}

// Dimensions whose sums are on the stack at a time.
constexpr int64_t kFewPanel = 256;

// output_t [dims][kLanes] = rescale * output_t + sums.
template <class V, class S, int Rows, class E = typename V::Element>
RAPT_INLINE void store_few(const E* sums, int64_t dims, const E* rescale, E* output_t) {
  const V factor = rescale ? V::load(rescale) : V::splat(1);
  for (int64_t d = 0; d < dims; d += kFewDims<V, S>)
    for (int part = 0; part < kParts<V, S>; ++part, sums += Rows * V::kLanes) {
      V of_dim[V::kLanes];
      UNROLL_FOR (int x = 0; x < V::kLanes; ++x) {
        if (x < Rows)
          of_dim[x] = V::load(sums + x * V::kLanes);
        else
          of_dim[x] = V::splat(0);
      }
      transpose(of_dim);
      for (int64_t x = 0; x < V::kLanes; ++x) {
        const int64_t at = d + x * kParts<V, S> + part;
        if (at >= dims) break;
        const V old = V::load(output_t + at * V::kLanes);
        store(output_t + at * V::kLanes,
              rescale ? fma(factor, old, of_dim[x]) : add(old, of_dim[x]));
      }
    }
}

template <class V, class S, int Rows, class E = typename V::Element>
RAPT_NOINLINE void output_of_few(const void* tile, const void* rows, int64_t /* in the runs */,
                                 int64_t keys, int64_t value_dim, const E* rescale,
                                 E* output_t) noexcept {
  constexpr int64_t kDims = kFewDims<V, S>, kSums = kParts<V, S> * Rows * V::kLanes;
  constexpr int kGroups = few_groups<V, S, Rows>();
  const auto* weights = static_cast<const E*>(tile);
  const auto* runs = static_cast<const RowRun*>(rows);
  E sums[(kFewPanel / kDims) * kSums];
  for (int64_t panel = 0; panel < value_dim; panel += kFewPanel) {
    const int64_t dims = smaller(value_dim - panel, kFewPanel);
    const int64_t groups = (dims + kDims - 1) / kDims;
    for (int64_t i = 0; i < groups * kSums; i += V::kLanes) store(sums + i, V::splat(0));
    RowStream<typename S::Stored> ahead(runs, panel, dims, keys);
    ahead.read(kFewValues * dims);
    for (int64_t j = 0; j < keys; j += kFewValues) {
      const int64_t count = smaller(keys - j, kFewValues);
      const int64_t stride = runs[j / kRunRows].stride;
      const E* const some = weights + j * V::kLanes;
      const auto* const from = row_of<typename S::Stored>(runs, j) + panel;
      int64_t d = 0;
      for (; d + kGroups * kDims <= dims; d += kGroups * kDims) {
        ahead.read(kFewValues * kGroups * kDims);
        add_few_values<V, S, Rows, kGroups, true>(some, from + d, stride, count, 0,
                                                  sums + d / kDims * kSums);
      }
      for (; d + kDims <= dims; d += kDims) {
        ahead.read(kFewValues * kDims);
        add_few_values<V, S, Rows, 1, true>(some, from + d, stride, count, 0,
                                            sums + d / kDims * kSums);
      }
      ahead.read(kFewValues * (dims - d));
      if (d < dims)
        add_few_values<V, S, Rows, 1, false>(some, from + d, stride, count, dims - d,
                                             sums + d / kDims * kSums);
    }
    store_few<V, S, Rows>(sums, dims, rescale, output_t + panel * V::kLanes);
  }
}

// As output_of_bits() in scores.simd.h: pairs whose bit is clear contribute nothing.
template <class V, class S, class E = typename V::Element>
RAPT_NOINLINE void few_output_of_bits(const void* tile, const uint64_t* bits, const void* rows,
                                      int64_t /* in the runs */, int64_t keys, int64_t value_dim,
                                      const E* rescale, int64_t queries, E* output_t) noexcept {
  const auto* weights = static_cast<const E*>(tile);
  const auto* runs = static_cast<const RowRun*>(rows);
  for (int64_t d = 0; d < value_dim; d += V::kLanes)
    for (int64_t r = 0; r < queries; ++r) {
      const int64_t dims = smaller(value_dim - d, V::kLanes);
      V acc = V::splat(0);
      for (int64_t j = 0; j < keys; ++j)
        if ((bits[j] >> r & 1) != 0)
          acc = fma(S::load_first(row_of<typename S::Stored>(runs, j) + d, dims),
                    V::splat(weights[j * queries + r]), acc);
      E sums[V::kLanes], old[V::kLanes] = {};
      for (int64_t x = 0; x < dims; ++x) old[x] = output_t[(d + x) * queries + r];
      store(sums, rescale ? fma(V::splat(rescale[r]), V::load(old), acc) : add(V::load(old), acc));
      for (int64_t x = 0; x < dims; ++x) output_t[(d + x) * queries + r] = sums[x];
    }
}

}  // namespace
}  // namespace rapt::RAPT_ISA
