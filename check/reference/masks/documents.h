#pragma once
// query_ids[i] = key_ids[j], ids of the batch or of all.
#include "check/reference/mask_predicate.h"

namespace check {

struct DocumentsPredicate {
  static constexpr std::string_view kName = "documents";
  static constexpr MaskDims kDims = MaskDims::shared;
  static constexpr MaskNumber kNumber{"the number of documents", 1, 1099511627776, 4, true};

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const auto id = [&](const TensorView& ids, int64_t position) {
      const int64_t step = ids.shape[ids.rank - 1] == 1 ? 0 : ids.strides[ids.rank - 1];
      return element_at(ids, batch_offset(ids, place, 1) + position * step);
    };
    return id(tensors[0], place.i) == id(tensors[1], place.j);
  }

  static std::vector<Dims> shapes(const MaskSizes& sizes) {
    return {extended(sizes.dims, sizes.q_len), extended(sizes.dims, sizes.k_len)};
  }

  // Half of them packed one after the other, half of them in any order.
  static void draw(Random& random, const MaskSizes& sizes, MaskTensors tensors) {
    const bool sorted = random.chance(0.5);
    const auto last = static_cast<int64_t>(sizes.number) - 1;
    for (const TensorView& ids : tensors) {
      const int64_t n = ids.shape[ids.rank - 1];
      auto* row = static_cast<int64_t*>(ids.data);
      for (int64_t left = ids.count(); left > 0; left -= n, row += n) {
        for (int64_t i = 0; i < n; ++i) row[i] = random.between(0, last);
        if (sorted) std::sort(row, row + n);
      }
    }
  }
};

}  // namespace check
