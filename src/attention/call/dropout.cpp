// Dropout outside of kernels: its threshold, and dropout_mask(), the pairs that it keeps.
#include "rapt/dropout.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "attention/call/problem.h"
#include "kernels/kernel_table.h"

namespace rapt {
namespace {

// Queries per draw: as many as a word has bits.
constexpr int64_t kQueries = 64, kKeys = 128;

void check_kept(const TensorView& kept) {
  const auto fail = [&](ErrorCode code, const std::string& message) {
    throw Error(code, "kept " + (kept.defined() ? to_string(kept.dims()) : "") + message);
  };
  if (!kept.defined()) fail(ErrorCode::argument, "is missing");
  if (kept.rank < 2 || kept.rank > kMaxRank)
    fail(ErrorCode::shape, " has rank " + std::to_string(kept.rank) + "; expected 2 to " +
                               std::to_string(kMaxRank) + ": [..., q_len, k_len]");
  element_count(kept.dims());
  if (kept.dtype != DType::boolean)
    fail(ErrorCode::dtype, std::string(" is ") + name_of(kept.dtype) + "; expected bool");
  if (kept.read_only) fail(ErrorCode::argument, " is read-only");
  if (!kept.data && !kept.empty())
    fail(ErrorCode::argument, " has elements but a null data pointer");
  extent_of("kept", kept);
  if (overlaps_itself(kept))
    fail(ErrorCode::argument, ": two of its elements may share memory (strides)");
}

}  // namespace

uint64_t threshold_of(const Dropout& dropout) {
  const double p = dropout.probability;
  if (!(p >= 0 && p < 1))
    throw Error(ErrorCode::argument, "dropout.probability is " + std::to_string(p) +
                                         "; expected at least 0 and less than 1");
  return std::min(static_cast<uint64_t>(std::llround(p * 0x1p32)), uint64_t{0xFFFFFFFF});
}

void dropout_mask(const Dropout& dropout, const TensorView& kept) {
  const uint64_t threshold = threshold_of(dropout);
  check_kept(kept);
  if (kept.empty()) return;
  const auto draw = kernels<float>().dropout.draw;
  const int rank = kept.rank - 2;
  const int64_t q_len = kept.shape[rank], k_len = kept.shape[rank + 1];
  const int64_t heads = element_count({kept.shape, static_cast<size_t>(rank)});
  uint64_t bits[kKeys];
  for (int64_t head = 0; head < heads; ++head) {
    auto* matrix = static_cast<bool*>(kept.data);
    for (int64_t i = rank - 1, left = head; i >= 0; left /= kept.shape[i--])
      matrix += left % kept.shape[i] * kept.strides[i];
    for (int64_t query = 0; query < q_len; query += kQueries)
      for (int64_t key = 0; key < k_len; key += kKeys) {
        const int64_t queries = std::min(kQueries, q_len - query);
        const int64_t keys = std::min(kKeys, k_len - key);
        draw(dropout.seed, threshold, head, query, key, keys, queries, bits);
        for (int64_t i = 0; i < queries; ++i)
          for (int64_t j = 0; j < keys; ++j)
            matrix[(query + i) * kept.strides[rank] + (key + j) * kept.strides[rank + 1]] =
                bits[j] >> i & 1;
      }
  }
}

}  // namespace rapt
