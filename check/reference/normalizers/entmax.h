#pragma once
// entmax: one alpha of all heads, or one of each (alphas; of one number here).
#include "check/reference/entmax_family.h"

namespace check {

struct EntmaxReference : EntmaxFamily<EntmaxReference> {
  static constexpr std::string_view kName = "entmax";
  std::optional<double> alpha = {}, alphas = {};  // of all heads, or of each: one of them
  static constexpr NormalizerParameter<EntmaxReference> kParameters[] = {
      {"alpha", &EntmaxReference::alpha}, {"alphas", &EntmaxReference::alphas}};
  bool operator==(const EntmaxReference&) const = default;
  double alpha_of() const { return alphas.value_or(alpha.value_or(1.5)); }
  bool has_gradient() const { return alpha || alphas; }
};

}  // namespace check
