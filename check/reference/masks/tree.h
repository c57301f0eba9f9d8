#pragma once
// j is the query's own position among the keys, its parent, the parent of that, and so on. The last
// keys are the tokens of the tree, those before them a chain.
#include "check/reference/mask_predicate.h"

namespace check {

struct TreePredicate {
  static constexpr std::string_view kName = "tree";
  static constexpr MaskDims kDims = MaskDims::shared;

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const TensorView& parents = tensors[0];
    const int last = parents.rank - 1;
    const int64_t root = place.k_len - parents.shape[last];
    int64_t key = place.i + place.k_len - place.q_len;
    while (key > place.j) {
      if (key < root) return true;  // the keys before it are its ancestors
      const auto parent = static_cast<int64_t>(element_at(
          parents, batch_offset(parents, place, 1) + (key - root) * parents.strides[last]));
      key = parent < 0 ? root - 1 : root + parent;
    }
    return key == place.j;
  }

  // All keys, the queries, or half of the keys.
  static std::vector<Dims> shapes(const MaskSizes& sizes) {
    const bool half = (sizes.q_len + sizes.k_len) % 2 == 1;
    return {extended(sizes.dims, half ? sizes.k_len / 2 : std::min(sizes.q_len, sizes.k_len))};
  }

  // Chains that branch now and then.
  static void draw(Random& random, const MaskSizes&, MaskTensors tensors) {
    const int64_t n = tensors[0].shape[tensors[0].rank - 1];
    auto* row = static_cast<int64_t*>(tensors[0].data);
    for (int64_t left = tensors[0].count(); left > 0; left -= n, row += n)
      for (int64_t t = 0; t < n; ++t)
        row[t] = random.chance(0.5) ? t - 1 : random.between(-1, t - 1);
  }
};

}  // namespace check
