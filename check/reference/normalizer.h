#pragma once
// A normaliser of the references: one of the formulas in normalizers/. The default is softmax.
#include <variant>

#include "normalizer_references.inc"  // Normalizer: the variant of all formulas, written by the build

namespace check {

inline Normalizer of_length(const Normalizer& normalizer, int64_t k_len) {
  return std::visit([&](const auto& n) { return Normalizer(n.of_length(k_len)); }, normalizer);
}
inline bool has_gradient(const Normalizer& normalizer) {
  return std::visit([](const auto& n) { return n.has_gradient(); }, normalizer);
}
inline bool is_sparse(const Normalizer& normalizer) {
  return std::visit([](const auto& n) { return n.kSparse; }, normalizer);
}
inline bool has_statistic(const Normalizer& normalizer) {
  return std::visit([](const auto& n) { return n.kHasStatistic; }, normalizer);
}

}  // namespace check
