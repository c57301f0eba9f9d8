#include "check/draw/axes.h"

#include <algorithm>
#include <set>
#include <vector>

#include "check/problem/mask_spec.h"
#include "check/reference/method.h"
#include "rapt/catalogue.h"
#include "rapt/methods.h"
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

// What a method rejects: exclude(axis, values) is called for each axis that it restricts.
template <class Exclude>
void for_each_rejection(const rapt::MethodScope& scope, const Exclude& exclude) {
  using Axes = std::span<const std::string_view>;
  const auto exclude_unless = [&](bool accepted, AxisIndex axis, const Names& values) {
    if (!accepted) exclude(axis, values);
  };
  const auto all_but = [](Axes values, std::span<const char* const> accepted) {
    Names others;
    for (const std::string_view value : values)
      if (value != "none" && std::ranges::find(accepted, value, [](const char* name) {
                               return std::string_view(name);
                             }) == accepted.end())
        others.push_back(value);
    return others;
  };
  Names masks = all_but(mask_values(), scope.masks);
  const bool causal = std::ranges::find(masks, std::string_view("causal")) == masks.end();
  // Else problems with the mask are drawn without an offset, with as many queries as keys.
  if (causal && scope.shifted_causal && scope.causal_lengths_differ)
    std::erase(masks, "causal" + std::string(kPerBatch));
  exclude(kMaskAxis, masks);
  exclude(kScoreAxis, all_but(score_values(), scope.scores));
  exclude(kNormalizerAxis, all_but(normalizer_values(), scope.normalizers));
  exclude_unless(scope.f32, kDTypeAxis, {"f32"});
  exclude_unless(scope.f64, kDTypeAxis, {"f64"});
  exclude_unless(scope.bf16, kDTypeAxis, {"bf16", "bf16>f32"});
  exclude_unless(scope.f16, kDTypeAxis, {"f16", "f16>f32"});
  exclude_unless(scope.shared_keys && scope.shared_values, kHeadsAxis,
                 {"grouped", "one for all", "batch shared", "query shared", "nested"});
  exclude_unless(scope.bias, kBiasAxis, all_but(axis_values::kBias, {}));
  exclude_unless(scope.bias, kBiasOrderAxis, {"before"});
  exclude_unless(scope.dropout, kDropoutAxis, {"some"});
  exclude_unless(scope.packed, kPackedAxis, {"packed"});
  exclude_unless(scope.cache, kCacheAxis, all_but(axis_values::kCache, {}));
  exclude_unless(scope.relative, kRelativeAxis, all_but(axis_values::kRelative, {}));
  exclude_unless(scope.row_transforms, kRowsAxis, all_but(axis_values::kRows, {}));
  exclude_unless(scope.weights, kCaptureAxis, {"weights", "weights of rows", "weights chosen"});
  exclude_unless(scope.map, kCaptureAxis, {"map mean", "map max", "map sum"});
  exclude_unless(scope.top_k, kCaptureAxis, {"top-k"});
  exclude_unless(scope.entropy, kCaptureAxis, {"entropy"});
  exclude_unless(scope.received, kCaptureAxis, {"received"});
  exclude_unless(scope.weights && scope.map && scope.top_k && scope.entropy && scope.received,
                 kCaptureAxis, {"all"});
}

// Calls visit(name, scope) for the methods that problems have.
template <class Visit, class... M>
void for_each_method(rapt::TypeList<M...>, const Visit& visit) {
  const auto visit_one = [&](std::string_view name, const rapt::MethodScope& scope) {
    if (has_reference(name)) visit(name, scope);
  };
  (visit_one(M::kDeclaration.name, M::kScope), ...);
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
  for_each_method(rapt::Methods{}, [&](std::string_view name, const rapt::MethodScope& scope) {
    for_each_rejection(scope, [&](AxisIndex axis, const Names& values) {
      exclude(kMethodAxis, {name}, axis, values);
    });
  });
  // Features far apart have the sum 0 or NaN (docs/methods/favor.md).
  exclude(kMethodAxis, {"favor", "linear"}, kInputsAxis, {"infinity", "huge"});
  exclude(kMethodAxis, {"favor"}, kScaleAxis, {"large"});
  return all;
}

}  // namespace

std::span<const std::string_view> mask_values() {
  static const Names values = [] {
    Names all = {"none"};
    for (const rapt::Declaration* mask : leaf_masks())
      if (!tensor_traits(*mask).required) all.emplace_back(mask->name);
    all.insert(all.end(), all_with_tensors().begin(), all_with_tensors().end());
    for (const std::string_view combined : {"two", "three", "and", "or", "not", "combined"})
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

std::span<const std::string_view> method_values() {
  static const Names values = [] {
    Names all = {"none"};
    for_each_method(rapt::Methods{},
                    [&](std::string_view name, const auto&) { all.push_back(name); });
    return all;
  }();
  return values;
}

bool conflict(size_t axis_a, size_t value_a, size_t axis_b, size_t value_b) {
  static const std::set<TwoValues> all = conflicts();
  return all.contains({axis_a, value_a, axis_b, value_b});
}

}  // namespace check
