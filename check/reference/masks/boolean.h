#pragma once
// allowed[..., i, j], broadcast from the right.
#include "check/reference/mask_predicate.h"

namespace check {

struct BooleanPredicate {
  static constexpr std::string_view kName = "boolean";
  static constexpr DType kDType = DType::boolean;
  static constexpr MaskDims kDims = MaskDims::pairs;
  static constexpr MaskNumber kNumber{"a density from 0 to 1", 0, 1, 0.5, false};

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const TensorView& allowed = tensors[0];
    Dims index(place.index.begin(), place.index.end());
    index.insert(index.end(), {place.i, place.j});
    const size_t skipped = index.size() - static_cast<size_t>(allowed.rank);
    int64_t offset = 0;
    for (int d = 0; d < allowed.rank; ++d)
      if (allowed.shape[d] != 1)
        offset += index[skipped + static_cast<size_t>(d)] * allowed.strides[d];
    return element_at(allowed, offset) != 0;
  }

  static std::vector<Dims> shapes(const MaskSizes& sizes) { return {sizes.dims}; }

  static void draw(Random& random, const MaskSizes& sizes, MaskTensors tensors) {
    const Dims& dims = sizes.dims;
    for_each_index(
        dims, [&](auto index) { set(tensors[0], index, random.chance(sizes.number) ? 1 : 0); });
    // Some rows have no key.
    if (dims.size() >= 2 && dims[dims.size() - 2] > 2)
      for_each_index(dims, [&](auto index) {
        if (index[index.size() - 2] == 2) set(tensors[0], index, 0);
      });
  }
};

}  // namespace check
