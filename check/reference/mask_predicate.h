#pragma once
// The types of the predicates in masks/.
//
// The predicate of a mask is a struct in a file of that folder, named after the mask:
// documents_by_starts.h has DocumentsByStartsPredicate. The build lists them. It has
//
//   kName                     as in the library
//   allows(place, tensors)    whether the query may attend to the key
//
// `tensors` are those of the mask in the order of its declaration; absent ones are not defined.
// A mask with integers and choices has
//
//   explicit NamePredicate(const VariantArguments&)
//
// A mask with tensors says how they are drawn for a problem:
//
//   kDims                         which dimensions a descriptor may list
//   kNumber                       if they depend on a number: what it is
//   kDType                        if it is not i64
//   shapes(sizes)                 the dimensions of each tensor
//   draw(random, sizes, tensors)  fills the tensors, which are dense
//
// Shares no code with the library.
#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "check/spec/variant_arguments.h"
#include "check/tensors/arrays.h"

namespace check {

using MaskTensors = std::span<const TensorView>;

// The dimensions that a descriptor lists for the tensors of a mask.
enum class MaskDims : uint8_t {
  none,
  batches,  // the first leading dimensions, or 1 for each; default: the first
  shared,   // the same; default: none
  pairs,    // the last of [leading, q_len, k_len], or 1 for each; default: [q_len, k_len]
};

struct MaskNumber {  // by which tensors are drawn
  const char* what;  // for messages
  double least, most, usual;
  bool whole;
};

struct MaskSizes {  // on which the shapes and values of tensors depend
  int64_t q_len, k_len;
  Dims dims;
  double number;
};

// The offset in a tensor whose first dimensions are the first leading ones, and whose last `own`
// are not.
inline int64_t batch_offset(const TensorView& tensor, const PairPlace& place, int own = 0) {
  int64_t offset = 0;
  for (int d = 0; d < tensor.rank - own; ++d)
    if (tensor.shape[d] != 1) offset += place.index[static_cast<size_t>(d)] * tensor.strides[d];
  return offset;
}

// The whole number that a tensor has for the batch of a pair.
inline int64_t of_batch(const TensorView& tensor, const PairPlace& place) {
  return static_cast<int64_t>(element_at(tensor, batch_offset(tensor, place)));
}

// The dimensions with one more.
inline Dims extended(Dims dims, int64_t length) {
  dims.push_back(length);
  return dims;
}

// The tensors of a mask that has a number of keys per batch.
struct BatchLengths {
  static constexpr MaskDims kDims = MaskDims::batches;

  static std::vector<Dims> shapes(const MaskSizes& sizes) { return {sizes.dims}; }

  static void draw(Random& random, const MaskSizes& sizes, MaskTensors tensors) {
    for_each_index(sizes.dims, [&](auto index) {
      set(tensors[0], index, static_cast<double>(random.between(0, sizes.k_len)));
    });
  }
};

// The positions of a mask with an anchor: with lengths, the last query is aligned with the last key
// of its batch.
class AnchoredBatches : public BatchLengths {
 public:
  explicit AnchoredBatches(const VariantArguments& arguments) : positions_(arguments) {}

  // j - i, with queries counted as the anchor or the lengths say.
  int64_t ahead(const PairPlace& place, MaskTensors tensors) const {
    if (!tensors[0].defined()) return positions_.ahead(place);
    return place.j - place.i - (of_batch(tensors[0], place) - place.q_len);
  }

 private:
  AnchoredPositions positions_;
};

}  // namespace check
