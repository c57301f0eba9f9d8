#include "check/draw/axes.h"

#include <algorithm>
#include <set>
#include <vector>

#include "check/problem/mask_spec.h"
#include "rapt/catalogue.h"
#include "rapt/variants.h"

namespace check {
namespace {

using Names = std::vector<std::string_view>;
using TwoValues = std::array<size_t, 4>;  // axis, value, other axis, value

Names names_of(std::span<const rapt::Declaration* const> declarations) {
  Names names;
  for (const rapt::Declaration* declaration : declarations) names.emplace_back(declaration->name);
  return names;
}

template <class... N>
Names without_entropy(rapt::TypeList<N...>) {
  Names names;
  ((N::kEntropy ? void() : names.push_back(N::kDeclaration.name)), ...);
  return names;
}

// The masks of the catalogue that always have tensors, and the others with those that they may
// have.
const std::vector<std::string>& all_with_tensors() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> names;
    for (const rapt::Declaration* mask : leaf_masks()) {
      const MaskTensorTraits traits = tensor_traits(*mask);
      if (traits.any) names.push_back(mask->name + std::string(traits.required ? "" : kPerBatch));
    }
    return names;
  }();
  return all;
}

// All pairs of values that exclude each other, in both orders.
std::set<TwoValues> conflicts() {
  std::set<TwoValues> all;
  const auto index = [](AxisIndex axis, std::string_view value) {
    const auto& values = kAxes[axis].values;
    return static_cast<size_t>(std::ranges::find(values, value) - values.begin());
  };
  // Each value of one axis excludes each value of the other.
  const auto exclude = [&](AxisIndex a, const Names& of_a, AxisIndex b, const Names& of_b) {
    for (const std::string_view x : of_a)
      for (const std::string_view y : of_b) {
        all.insert({a, index(a, x), b, index(b, y)});
        all.insert({b, index(b, y), a, index(a, x)});
      }
  };
  // Positions are each sequence's own.
  exclude(kPackedAxis, {"packed"}, kMaskAxis,
          Names(all_with_tensors().begin(), all_with_tensors().end()));
  exclude(kPackedAxis, {"packed"}, kBiasAxis,
          {"matrix", "per head", "row", "column", "with -inf", "f32"});
  // Rows have keys of different sequences.
  exclude(kPackedAxis, {"packed"}, kCaptureAxis,
          {"weights", "weights of rows", "weights chosen", "map mean", "map max", "map sum"});
  // Positions are each sequence's own, and no call rotates the keys of a cache.
  const Names caches(axis_values::kCache + 1, std::end(axis_values::kCache));
  exclude(kCacheAxis, caches, kMaskAxis,
          Names(all_with_tensors().begin(), all_with_tensors().end()));
  exclude(kCacheAxis, caches, kBiasAxis,
          {"matrix", "per head", "row", "column", "with -inf", "f32"});
  exclude(kCacheAxis, caches, kCaptureAxis, {"map mean", "map max", "map sum"});
  exclude(kCacheAxis, caches, kRelativeAxis, {"shaw", "transformer-xl", "deberta", "log"});
  exclude(kCacheAxis, caches, kRowsAxis, {"cosine", "both"});
  // Every sequence has keys and queries of its own.
  exclude(kCacheAxis, caches, kHeadsAxis, {"none", "batch shared", "query shared"});
  // There is no bias, or no score that it could be before.
  exclude(kBiasOrderAxis, {"before"}, kCacheAxis, caches);
  exclude(kBiasOrderAxis, {"before"}, kPackedAxis, {"packed"});
  exclude(kBiasOrderAxis, {"before"}, kBiasAxis, {"none"});
  exclude(kBiasOrderAxis, {"before"}, kScoreAxis, {"none"});
  // The library rejects these.
  exclude(kNormalizerAxis, without_entropy(rapt::Normalizers{}), kCaptureAxis, {"entropy", "all"});
  exclude(kRowsAxis, {"rotary", "cosine", "both"}, kRelativeAxis,
          {"shaw", "transformer-xl", "deberta", "log"});
  // There is nothing to interleave.
  exclude(kHeadsAxis, {"none"}, kLayoutAxis, {"interleaved"});
  // Cosine makes such keys equal but for their rounding, which then decides which k are largest.
  exclude(kInputsAxis, {"rising keys"}, kRowsAxis, {"cosine", "both"});
  // A bias of the inputs' dtype is "matrix"; f32 is for 16-bit inputs.
  exclude(kDTypeAxis, {"f32", "f64"}, kBiasAxis, {"f32"});
  return all;
}

}  // namespace

std::span<const std::string_view> mask_values() {
  static const Names values = [] {
    Names all = {"none"};
    for (const rapt::Declaration* mask : leaf_masks())
      if (!tensor_traits(*mask).required) all.emplace_back(mask->name);
    all.insert(all.end(), all_with_tensors().begin(), all_with_tensors().end());
    for (const std::string_view combined : {"two", "three", "and", "or", "not", "tree"})
      all.push_back(combined);
    return all;
  }();
  return values;
}

std::span<const std::string_view> score_values() {
  static const Names values = [] {
    Names all = names_of(rapt::score_declarations());
    all.insert(all.begin(), "none");
    all.emplace_back("two");
    return all;
  }();
  return values;
}

std::span<const std::string_view> normalizer_values() {
  static const Names values = names_of(rapt::normalizer_declarations());
  return values;
}

bool conflict(size_t axis_a, size_t value_a, size_t axis_b, size_t value_b) {
  static const std::set<TwoValues> all = conflicts();
  return all.contains({axis_a, value_a, axis_b, value_b});
}

}  // namespace check
