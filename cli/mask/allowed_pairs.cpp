// Walks strips of 64 queries by blocks of keys: whole blocks where the masks' cover decides, bits
// elsewhere.
#include "cli/mask/allowed_pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "cli/process/interrupt.h"

namespace rapt::cli {
namespace {

constexpr int64_t kQueries = 64;  // bits of a word of Mask::exclude()
constexpr int64_t kKeys = 512;    // few enough that a diagonal cuts few blocks

// Bit i of word j of a block: query i of the strip may attend to key j of the block.
using Words = std::vector<uint64_t>;

// Clears the pairs whose bias is -inf. The bias is broadcast from the right.
template <class T>
void exclude_infinite(const TensorView& bias, const Head& head, Positions queries, Positions keys,
                      Words& words) {
  int64_t offset = 0;
  for (int d = 0; d < bias.rank - 2; ++d) {
    const int axis = head.rank - (bias.rank - 2) + d;
    const int64_t i = axis < 0 || bias.shape[d] == 1 ? 0 : head.index[axis];
    offset += i * bias.strides[d];
  }
  const auto stride = [&](int from_right) {
    const int d = bias.rank - from_right;
    return d < 0 || bias.shape[d] == 1 ? int64_t{0} : bias.strides[d];
  };
  const T* const values = static_cast<const T*>(bias.data) + offset;
  for (int64_t i = 0; i < queries.count; ++i) {
    for (int64_t j = 0; j < keys.count; ++j) {
      const double value = values[(queries.start + i) * stride(2) + (keys.start + j) * stride(1)];
      if (std::isinf(value) && value < 0) words[static_cast<size_t>(j)] &= ~(uint64_t{1} << i);
    }
  }
}

void exclude_by_bias(const TensorView& bias, const Head& head, Positions queries, Positions keys,
                     Words& words) {
  switch (bias.dtype) {
    case DType::f32:
      return exclude_infinite<float>(bias, head, queries, keys, words);
    case DType::f64:
      return exclude_infinite<double>(bias, head, queries, keys, words);
    case DType::bf16:
      return exclude_infinite<BFloat16>(bias, head, queries, keys, words);
    case DType::f16:
      return exclude_infinite<Float16>(bias, head, queries, keys, words);
    default:
      throw Error(ErrorCode::dtype,
                  std::string("expected a bias of floats, got ") + name_of(bias.dtype));
  }
}

// The cell of position i: the largest a with a length / cells <= i.
int64_t cell_of(int64_t i, int64_t length, int64_t cells) { return ((i + 1) * cells - 1) / length; }

int64_t begin_of(int64_t cell, int64_t length, int64_t cells) { return cell * length / cells; }

}  // namespace

std::vector<int64_t> count_allowed(std::span<const Mask* const> masks, const TensorView& bias,
                                   const Head& head, int64_t rows, int64_t columns) {
  std::vector<std::vector<BoundMask>> bound;
  for (const Mask* mask : masks) {
    std::vector<BoundMask>& slots = bound.emplace_back(static_cast<size_t>(mask->bound_slots()));
    slots[0] = {.mask = mask, .q_len = head.q_len, .k_len = head.k_len};
    mask->bind(head, slots.data());
  }
  std::vector<int64_t> counts(static_cast<size_t>(rows * columns), 0);
  Words words(static_cast<size_t>(std::min(kKeys, head.k_len)));
  for (int64_t i = 0; i < head.q_len; i += kQueries) {
    stop_if_interrupted();
    const Positions queries{.start = i, .count = std::min(kQueries, head.q_len - i)};
    for (int64_t j = 0; j < head.k_len; j += kKeys) {
      const Positions keys{.start = j, .count = std::min(kKeys, head.k_len - j)};
      std::fill(words.begin(), words.end(), low_bits(queries.count));
      bool any = true;
      for (size_t m = 0; m < masks.size() && any; ++m) {
        const Cover cover = masks[m]->cover(bound[m][0], queries, keys);
        any = cover != Cover::none;
        if (cover == Cover::some) masks[m]->exclude(bound[m][0], queries, keys, words.data());
      }
      if (!any) continue;
      if (bias.defined()) exclude_by_bias(bias, head, queries, keys, words);
      const int64_t last = cell_of(i + queries.count - 1, head.q_len, rows);
      for (int64_t row = cell_of(i, head.q_len, rows); row <= last; ++row) {
        const int64_t from = std::max(begin_of(row, head.q_len, rows), i) - i;
        const int64_t to = std::min(begin_of(row + 1, head.q_len, rows), i + queries.count) - i;
        const uint64_t bits = low_bits(to) & ~low_bits(from);
        int64_t column = cell_of(j, head.k_len, columns);
        int64_t next = begin_of(column + 1, head.k_len, columns);
        for (int64_t k = 0; k < keys.count; ++k) {
          if (j + k == next) next = begin_of(++column + 1, head.k_len, columns);
          counts[static_cast<size_t>(row * columns + column)] +=
              std::popcount(words[static_cast<size_t>(k)] & bits);
        }
      }
    }
  }
  return counts;
}

std::vector<uint8_t> allowed_pairs(std::span<const Mask* const> masks, const TensorView& bias,
                                   const Head& head) {
  const std::vector<int64_t> counts = count_allowed(masks, bias, head, head.q_len, head.k_len);
  return {counts.begin(), counts.end()};
}

}  // namespace rapt::cli
