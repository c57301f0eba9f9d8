#pragma once
// A mask as plain data: a tree of and, or and not over the masks of the catalogue.
//
// Its meaning is a predicate for one pair (query, key), which shares no code with the library
// (check/reference/masks). The library's mask is made from its text. Tensors (lengths, booleans,
// document ids) are drawn from the case's seed and owned by the case.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "check/reference/mask_predicate.h"
#include "mask_predicates.inc"  // MaskPredicate: the variant of all predicates, written by the build
#include "rapt/mask/mask.h"

namespace check {

struct MaskSpec {
  enum Kind : uint8_t { leaf, all, any, negation };  // a mask of the catalogue, and, or, not

  Kind kind = leaf;
  std::vector<MaskSpec> parts;  // of all and any; the one of negation

  // Of a leaf.
  const rapt::Declaration* declaration = nullptr;
  std::optional<MaskPredicate> predicate;
  std::string arguments;  // as the library reads them, without tensors
  bool has_tensors = false;
  Dims dims;          // those that a descriptor lists for the tensors
  double number = 0;  // by which the tensors are drawn
  // In the order of the declaration; those that are absent or not drawn are not defined.
  std::vector<TensorView> tensors;

  bool holds_tensor() const;                     // itself or a part
  bool operator==(const MaskSpec& other) const;  // ignores drawn tensors

  // The dimensions and the type of the tensors of a leaf; none if it has none.
  std::vector<Dims> shapes(int64_t q_len, int64_t k_len) const;
  DType tensor_dtype() const;

  // Draws the tensors of this tree; they are appended to `owner`.
  void draw(Random& random, int64_t q_len, int64_t k_len, std::vector<Tensor>& owner);

  bool allowed(const PairPlace& place) const;

  // The library's mask; it refers to the tensors of this tree, which must outlive it.
  std::unique_ptr<rapt::Mask> make() const;
};

// Whether a mask has tensors, and which dimensions and numbers a descriptor gives for them.
struct MaskTensorTraits {
  bool any = false;       // it has tensors
  bool required = false;  // it has them always
  MaskDims dims = MaskDims::none;
  std::optional<MaskNumber> number;
};
MaskTensorTraits tensor_traits(const rapt::Declaration& mask);

// The masks of the catalogue that do not combine others.
std::span<const rapt::Declaration* const> leaf_masks();

// The predicate of a mask. Throws std::logic_error if there is none of this name.
MaskPredicate predicate_of(std::string_view mask, const VariantArguments& arguments);

// The text of a mask in a descriptor; dimensions that follow from `q_len` and `k_len` are left out.
std::string to_string(const MaskSpec& mask, const Dims& leading, int64_t q_len, int64_t k_len);

// The dimensions of tensors where none are written.
Dims default_dims(MaskDims dims, const Dims& leading, int64_t q_len, int64_t k_len);

}  // namespace check
