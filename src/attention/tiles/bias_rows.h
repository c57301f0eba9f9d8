#pragma once
// The bias of the current head: the address of a tile's part, and its prefetch. The code is in the
// header because it is inlined into the loop over tiles.
#include <algorithm>

#include "attention/rows/row_transformer.h"
#include "attention/tiles/group_rows.h"

namespace rapt {

class BiasRows {
 public:
  BiasRows() = default;
  // `rows`: the head's bias matrix.
  BiasRows(const Operand& bias, const std::byte* rows) noexcept : bias_(&bias), rows_(rows) {}

  bool exists() const noexcept { return bias_ != nullptr; }
  const std::byte* at(int64_t query, int64_t key) const noexcept {
    return rows_ + (bias_->row_offset(query) + key * bias_->dim_stride) * size_of(bias_->dtype);
  }
  // The bias of a tile: in place, or copied to dense_rows(), which returns room for it.
  template <class DenseRows>
  RowsAt of_tile(Positions queries, Positions keys, const DenseRows& dense_rows) const noexcept {
    const Operand& b = *bias_;
    if (b.run_rows == 0)
      return {const_cast<std::byte*>(at(queries.start, keys.start)), b.dtype,
              queries.step * b.row_stride, b.dim_stride};
    std::byte* const dense = dense_rows();
    gather_rows(b, at(0, keys.start), queries, keys.count, dense);
    return {dense, b.dtype, keys.count, 1};
  }

  // Whether the bias is prefetched before it is added. A row that all queries share is in the cache
  // already. Rows whose elements are not neighbours do not fill cache lines; they are not
  // prefetched.
  bool needs_prefetch() const noexcept {
    return bias_ && bias_->row_stride != 0 && bias_->dim_stride == 1;
  }
  // The number of keys whose scores are multiplied between two prefetches: kKeys, rounded up to the
  // step of the route, a power of two. kKeys is a multiple of the keys of every register tile
  // (products.simd.h), so that only the last piece leaves a remainder, which is slow.
  int64_t keys_per_prefetch(int64_t step) const noexcept { return (kKeys + step - 1) & -step; }
  // Prefetches the part of a tile's bias that is due before the scores of the keys [done, next) are
  // multiplied, so that it arrives during the products. The rows of the bias are fetched in order,
  // each from its first key on; the first one is fetched before the first product.
  void prefetch(Positions queries, Positions keys, int64_t done, int64_t next) const noexcept {
    next = std::min(next, keys.count);
    const auto rows_before = [&](int64_t key) {
      return (queries.count * key + keys.count - 1) / keys.count;
    };
    for (int64_t i = rows_before(done); i < rows_before(next); ++i) {
      const std::byte* const row = at(queries[i], keys.start);
      const int64_t bytes = keys.count * size_of(bias_->dtype);
      for (int64_t line = 0; line < bytes; line += kLine) __builtin_prefetch(row + line);
      __builtin_prefetch(row + bytes - 1);  // a row may start within a cache line
    }
  }

 private:
  static constexpr int64_t kKeys = 24;
  static constexpr int64_t kLine = 64;  // bytes

  const Operand* bias_ = nullptr;
  const std::byte* rows_ = nullptr;
};

}  // namespace rapt
