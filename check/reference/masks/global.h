#pragma once
// i + o or j is a global position: below count, or one of the batch. o is as in causal.h.
#include <set>

#include "check/reference/mask_predicate.h"

namespace check {

struct GlobalPredicate : AnchoredPositions {
  static constexpr std::string_view kName = "global";
  static constexpr MaskDims kDims = MaskDims::shared;
  int64_t count;

  explicit GlobalPredicate(const VariantArguments& arguments)
      : AnchoredPositions(arguments), count(arguments.integers.at("count")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    return is_global(place.j - ahead(place), place, tensors) || is_global(place.j, place, tensors);
  }

  bool is_global(int64_t position, const PairPlace& place, MaskTensors tensors) const {
    const TensorView& positions = tensors[0];
    if (position < 0 || !positions.defined()) return position >= 0 && position < count;
    const int last = positions.rank - 1;
    for (int64_t g = 0; g < positions.shape[last]; ++g)
      if (element_at(positions, batch_offset(positions, place, 1) + g * positions.strides[last]) ==
          static_cast<double>(position))
        return true;
    return false;
  }

  static std::vector<Dims> shapes(const MaskSizes& sizes) {
    return {extended(sizes.dims, 1 + (sizes.q_len + sizes.k_len) % 4)};
  }

  // Rising positions, after -1 for those that were drawn twice.
  static void draw(Random& random, const MaskSizes& sizes, MaskTensors tensors) {
    const int64_t g = tensors[0].shape[tensors[0].rank - 1];
    auto* row = static_cast<int64_t*>(tensors[0].data);
    for (int64_t left = tensors[0].count(); left > 0; left -= g, row += g) {
      std::set<int64_t> drawn;
      for (int64_t i = 0; i < g; ++i)
        drawn.insert(random.between(-1, std::max(sizes.q_len, sizes.k_len) - 1));
      std::fill_n(row, g, -1);
      std::copy(drawn.begin(), drawn.end(), row + g - static_cast<int64_t>(drawn.size()));
    }
  }
};

}  // namespace check
