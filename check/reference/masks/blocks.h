#pragma once
// Whether the list of the query's block holds the key's.
#include "check/reference/mask_predicate.h"

namespace check {

struct BlocksPredicate {
  static constexpr std::string_view kName = "blocks";
  static constexpr MaskDims kDims = MaskDims::shared;
  int64_t query_block, key_block;

  explicit BlocksPredicate(const VariantArguments& arguments)
      : query_block(arguments.integers.at("query_block")),
        key_block(arguments.integers.at("key_block")) {}

  bool allows(const PairPlace& place, MaskTensors tensors) const {
    const TensorView &starts = tensors[0], &indices = tensors[1];
    const int64_t step = starts.strides[starts.rank - 1];
    const int64_t of_row = batch_offset(starts, place, 1) + place.i / query_block * step;
    const auto begin = static_cast<int64_t>(element_at(starts, of_row));
    const auto end = static_cast<int64_t>(element_at(starts, of_row + step));
    for (int64_t at = begin; at < end; ++at)
      if (element_at(indices, at * indices.strides[0]) == static_cast<double>(place.j / key_block))
        return true;
    return false;
  }

  // Room for all blocks of all heads.
  std::vector<Dims> shapes(const MaskSizes& sizes) const {
    int64_t lists = rows_of(sizes);
    for (const int64_t length : sizes.dims) lists *= length;
    return {extended(sizes.dims, rows_of(sizes) + 1), {lists * key_blocks_of(sizes)}};
  }

  void draw(Random& random, const MaskSizes& sizes, MaskTensors tensors) const {
    const double density = random.pick({0.1, 0.5, 0.9});
    int64_t listed = 0;
    for_each_index(sizes.dims, [&](auto index) {
      Dims at(index.begin(), index.end());
      at.push_back(0);
      set(tensors[0], at, static_cast<double>(listed));
      for (int64_t row = 0; row < rows_of(sizes); ++row) {
        const bool empty = random.chance(0.1);
        for (int64_t block = 0; block < key_blocks_of(sizes); ++block)
          if (!empty && random.chance(density))
            set(tensors[1], Dims{listed++}, static_cast<double>(block));
        at.back() = row + 1;
        set(tensors[0], at, static_cast<double>(listed));
      }
    });
    while (listed < tensors[1].shape[0]) set(tensors[1], Dims{listed++}, -1);  // of no list
  }

 private:
  int64_t rows_of(const MaskSizes& sizes) const {
    return (sizes.q_len + query_block - 1) / query_block;
  }
  int64_t key_blocks_of(const MaskSizes& sizes) const {
    return (sizes.k_len + key_block - 1) / key_block;
  }
};

}  // namespace check
