#pragma once
// Query and key have the same number of starts at or before them.
#include "check/reference/mask_predicate.h"

namespace check {

struct DocumentsByStartsPredicate {
  static constexpr std::string_view kName = "documents_by_starts";
  static constexpr MaskDims kDims = MaskDims::none;
  static constexpr MaskNumber kNumber{"the number of documents", 1, 1099511627776, 4, true};

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const auto document = [](const TensorView& starts, int64_t position) {
      int64_t before = 0;
      for (int64_t d = 0; d < starts.shape[0]; ++d)
        before += element_at(starts, d * starts.strides[0]) <= static_cast<double>(position);
      return before;
    };
    return document(tensors[0], place.i) == document(tensors[1], place.j);
  }

  static std::vector<Dims> shapes(const MaskSizes& sizes) {
    const Dims starts{static_cast<int64_t>(sizes.number) + 1};
    return {starts, starts};
  }

  // Some documents are empty.
  static void draw(Random& random, const MaskSizes& sizes, MaskTensors tensors) {
    const auto fill = [&](const TensorView& starts, int64_t n) {
      auto* const begin = static_cast<int64_t*>(starts.data);
      auto* const end = begin + starts.count();
      begin[0] = 0, begin[1] = n;
      for (auto* start = begin + 2; start < end; ++start) *start = random.between(0, n);
      std::sort(begin, end);
    };
    fill(tensors[0], sizes.q_len);
    fill(tensors[1], sizes.k_len);
  }
};

}  // namespace check
