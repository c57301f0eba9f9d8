// Which heads share keys or values.
#include "attention/plan/key_matrices.h"

#include <algorithm>

namespace rapt {

KeyMatrices::KeyMatrices(const Problem& p, const Operand& o) noexcept
    : heads_per_group(o.heads_per_group) {
  for (int i = p.leading_rank - 1; i >= 0; --i) {
    const int64_t heads = i == p.leading_rank - 1 ? heads_per_group : 1;
    const int64_t matrices =
        o.lead_strides[i] == 0 ? std::min<int64_t>(p.leading[i], 1) : p.leading[i] / heads;
    strides[i] = matrices > 1 ? count : 0;
    count *= matrices;
  }
}

int64_t KeyMatrices::of(const int64_t* index, int rank) const noexcept {
  int64_t matrix = 0;
  for (int i = 0; i + 1 < rank; ++i) matrix += index[i] * strides[i];
  if (rank > 0) matrix += index[rank - 1] / heads_per_group * strides[rank - 1];
  return matrix;
}

void KeyMatrices::first_head(const Problem& p, int64_t matrix, int64_t* index) const noexcept {
  for (int i = 0; i < p.leading_rank; ++i) {
    index[i] = strides[i] > 0 ? matrix / strides[i] : 0;
    matrix -= index[i] * strides[i];
    if (i == p.leading_rank - 1) index[i] *= heads_per_group;
  }
}

bool KeyMatrices::next_head(const Problem& p, int64_t* index) const noexcept {
  for (int i = p.leading_rank; i-- > 0;) {
    const int64_t group = i == p.leading_rank - 1 ? heads_per_group : 1;
    const int64_t sharing = strides[i] > 0 ? group : p.leading[i];
    if (++index[i] % sharing != 0) return true;
    index[i] -= sharing;
  }
  return false;
}

}  // namespace rapt
