// The catalogue at run time: lists of declarations, makers of masks, suggestions for misspelt
// names.
#include "rapt/catalogue.h"

#include <algorithm>
#include <vector>

#include "catalogue/mask_makers.h"
#include "rapt/feature_maps.h"
#include "rapt/masks.h"

namespace rapt {
namespace {

template <class... T>
std::span<const Declaration* const> declarations_of(TypeList<T...>) {
  static constexpr const Declaration* all[] = {&T::kDeclaration...};
  return all;
}

// A mask that owns the parts to which its base class points.
template <class T>
class Owning final : public T {
 public:
  explicit Owning(std::vector<std::unique_ptr<Mask>> parts)
      : T(made_of(parts)), owned_(std::move(parts)) {}

 private:
  static T made_of(const std::vector<std::unique_ptr<Mask>>& parts) {
    if constexpr (T::kMostParts == 1) {
      return T(parts[0].get());
    } else {
      std::vector<const Mask*> pointers;
      for (const auto& part : parts) pointers.push_back(part.get());
      return T(pointers);
    }
  }

  std::vector<std::unique_ptr<Mask>> owned_;
};

template <class T>
constexpr MaskMaker maker_of() {
  MaskMaker maker{&T::kDeclaration, []() -> std::unique_ptr<Mask> { return std::make_unique<T>(); },
                  0, nullptr};
  if constexpr (requires { T::kMostParts; }) {
    maker.most_parts = T::kMostParts;
    maker.combine = [](std::vector<std::unique_ptr<Mask>> parts) -> std::unique_ptr<Mask> {
      return std::make_unique<Owning<T>>(std::move(parts));
    };
  }
  return maker;
}

template <class... T>
std::span<const MaskMaker> makers_of(TypeList<T...>) {
  static constexpr MaskMaker all[] = {maker_of<T>()...};
  return all;
}

// The edit distance: letters inserted, removed, replaced, or two neighbours swapped ("f23").
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    before.swap(above);
    above.swap(row);
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const MaskMaker> mask_makers() { return makers_of(Masks{}); }

std::span<const Declaration* const> mask_declarations() { return declarations_of(Masks{}); }

std::span<const Declaration* const> feature_map_declarations() {
  return declarations_of(FeatureMaps{});
}

std::string nearest(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance =
      std::max<size_t>(2, name.size() / 3) + 1;  // a larger distance is no misspelling
  for (const std::string_view candidate : known) {
    // The lengths rule most names out faster.
    if (std::max(name.size(), candidate.size()) - std::min(name.size(), candidate.size()) >=
        best_distance)
      continue;
    const size_t distance = edit_distance(name, candidate);
    // "or" is near "foo" only because both are short: half of the letters must stay.
    const bool alike = 2 * distance <= std::max(name.size(), candidate.size());
    if (alike && distance < best_distance) best = candidate, best_distance = distance;
  }
  return std::string(best);
}

}  // namespace rapt
