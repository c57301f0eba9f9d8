#include "check/spec/relative_spec.h"

#include <algorithm>
#include <cmath>

namespace check {

bool RelativeSpec::any() const {
  return std::ranges::any_of(tables, [](const RelativeTable& table) { return table.there; });
}

int64_t RelativeSpec::row(const PairPlace& place) const {
  const int64_t shift = anchor == rapt::Anchor::bottom_right ? place.k_len - place.q_len : 0;
  const int64_t d = place.j - (place.i + shift);
  int64_t away = std::abs(d);
  if (exact > 0 && away > exact) {
    const auto first = static_cast<long double>(exact);
    const long double grown = std::log(static_cast<long double>(away) / first),
                      whole = std::log(static_cast<long double>(max_distance - 1) / first);
    // In this order 1 at max_distance - 1, whatever the logarithms round to.
    away = exact + static_cast<int64_t>(std::ceil(grown / whole * (first - 1)));
  }
  const int64_t middle = center.value_or(distances / 2);
  return std::clamp<int64_t>(d < 0 ? middle - away : middle + away, 0, distances - 1);
}

TensorView RelativeSpec::as_rows(size_t part) const {
  TensorView t = tables[part].numbers;
  if (has_rows(part)) return t;
  ++t.rank;
  t.shape[t.rank - 1] = t.shape[t.rank - 2];
  t.strides[t.rank - 1] = t.strides[t.rank - 2];
  t.shape[t.rank - 2] = 1;
  t.strides[t.rank - 2] = 0;
  return t;
}

Dims RelativeSpec::dims(size_t part, int64_t head_dim, int64_t value_dim) const {
  Dims all = tables[part].leading;
  if (has_rows(part)) all.push_back(distances);
  all.push_back(part == values ? value_dim : head_dim);
  return all;
}

void RelativeSpec::draw(Random& random, DType dtype, int64_t head_dim, int64_t value_dim,
                        double magnitude, std::vector<Tensor>& owner) {
  for (size_t part = 0; part < kParts; ++part) {
    if (!tables[part].there) continue;
    owner.push_back(random_normal(random, dtype, dims(part, head_dim, value_dim), magnitude));
    tables[part].numbers = owner.back();
  }
}

std::string to_string(const RelativeSpec& relative, const Dims& leading) {
  std::string text;
  for (size_t part = 0; part < RelativeSpec::kParts; ++part) {
    const RelativeTable& table = relative.tables[part];
    if (!table.there) continue;
    text += (text.empty() ? "" : "+") + std::string(RelativeSpec::kPartNames[part]);
    if (table.leading != default_head_dims(leading)) text += to_string(table.leading);
  }
  if (relative.distances == 0) return text;
  text += "(" + std::to_string(relative.distances);
  if (relative.center) text += ",center=" + std::to_string(*relative.center);
  if (relative.exact > 0)
    text += ",log=" + std::to_string(relative.exact) + ".." + std::to_string(relative.max_distance);
  if (relative.anchor == rapt::Anchor::bottom_right) text += ",bottom-right";
  return text + ")";
}

Dims default_head_dims(const Dims& leading) {
  return leading.empty() ? Dims{} : Dims{leading.back()};
}

}  // namespace check
