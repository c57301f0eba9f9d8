#pragma once
// The bias of the head at work: where a tile's part of it lies, and how it arrives in time.
#include <algorithm>

#include "attention/call/problem.h"

namespace rapt {

class BiasRows {
 public:
  BiasRows() = default;
  // `rows`: of the head.
  BiasRows(const Operand& bias, const std::byte* rows) noexcept : bias_(&bias), rows_(rows) {}

  bool there() const noexcept { return bias_ != nullptr; }
  const std::byte* at(int64_t query, int64_t key) const noexcept {
    return rows_ + (query * bias_->row_stride + key * bias_->dim_stride) * size_of(bias_->dtype);
  }

  // Is it asked for before it is added? One that is the same for all queries is there already, and
  // one whose rows are no lines is not asked for.
  bool fetched() const noexcept {
    return bias_ && bias_->row_stride != 0 && bias_->dim_stride == 1;
  }
  // Keys of which scores are multiplied at once: a multiple of the keys of every register tile
  // (products.simd.h), so that no piece but the last leaves a rest, which is slow; rounded up to
  // the step of the route, a power of two.
  int64_t keys_per_fetch(int64_t step) const noexcept { return (kKeys + step - 1) & -step; }
  // Asks for the part of a tile's bias that is due before the scores of the keys [done, next) are
  // multiplied, so that it arrives behind the products instead of being waited for. Rows of the
  // bias one after the other, each as it lies, the first before the first product.
  void fetch(Positions queries, Positions keys, int64_t done, int64_t next) const noexcept {
    next = std::min(next, keys.count);
    const auto rows_before = [&](int64_t key) {
      return (queries.count * key + keys.count - 1) / keys.count;
    };
    for (int64_t i = rows_before(done); i < rows_before(next); ++i) {
      const std::byte* const row = at(queries[i], keys.start);
      const int64_t bytes = keys.count * size_of(bias_->dtype);
      for (int64_t line = 0; line < bytes; line += kLine) __builtin_prefetch(row + line);
      __builtin_prefetch(row + bytes - 1);  // a row may begin within a line
    }
  }

 private:
  static constexpr int64_t kKeys = 24;
  static constexpr int64_t kLine = 64;  // bytes

  const Operand* bias_ = nullptr;
  const std::byte* rows_ = nullptr;
};

}  // namespace rapt
