// Shows a mask of your own, alone and combined with others: a query attends to the keys of its own
// block, and to the very first key.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>

#include "rapt/rapt.h"

namespace {
class OwnBlock final : public rapt::Mask {
 public:
  int64_t block = 16;

  static const rapt::Declaration kDeclaration;
  const rapt::Declaration& declaration() const noexcept override { return kDeclaration; }
  void check(rapt::Shape, int64_t, int64_t) const override {
    rapt::check_parameters(kDeclaration, this);
  }
  // Nothing depends on the head, and `block` is in the mask itself.
  void bind(const rapt::Head&, rapt::BoundMask*) const noexcept override {}

  // One range that holds all allowed keys: from the first key to the end of the last own block.
  rapt::KeyRange key_range(const rapt::BoundMask& bound,
                           rapt::Positions q) const noexcept override {
    return {0, std::min((q.last() / block + 1) * block, bound.k_len)};
  }
  // Tiles between the first key and the own block are skipped. `some` would always be right.
  rapt::Cover cover(const rapt::BoundMask&, rapt::Positions q,
                    rapt::Positions k) const noexcept override {
    const int64_t q_first = q.start / block, q_last = q.last() / block;
    const int64_t k_first = k.start / block, k_last = k.last() / block;
    if (k.start > 0 && (k_first > q_last || k_last < q_first)) return rapt::Cover::none;
    const bool one_block = q_first == q_last && k_first == k_last && q_first == k_first;
    return one_block ? rapt::Cover::all : rapt::Cover::some;
  }
  // Clears the bits of the queries outside the block of key j.
  void exclude(const rapt::BoundMask&, rapt::Positions q, rapt::Positions k,
               uint64_t* bits) const noexcept override {
    for (int64_t j = 0; j < k.count; ++j) {
      if (k[j] == 0) continue;
      const int64_t begin =
          k[j] / block * block - q.start;  // the start of the block, relative to the first query
      bits[j] &= rapt::low_bits(rapt::queries_before(begin + block, q)) &
                 ~rapt::low_bits(rapt::queries_before(begin, q));
    }
  }
};

constexpr rapt::Parameter kParameters[] = {
    rapt::parameter<OwnBlock, &OwnBlock::block>("block", "keys per block", {1, 1 << 30})};
const rapt::Declaration OwnBlock::kDeclaration = {
    "own_block", "a query sees its own block and the first key", "this example", kParameters};
}  // namespace

int main() try {
  constexpr int64_t n = 1000, dim = 32;
  static float numbers[n * dim];  // [n, dim], query, key and value at once
  for (int64_t i = 0; i < n * dim; ++i) numbers[i] = std::sin(static_cast<float>(i));
  const rapt::TensorView x(numbers, {n, dim});

  // It combines with other masks, and can be a part of them: the own block, but later keys only
  // within a window.
  const OwnBlock own_block;
  const rapt::Causal causal;
  const rapt::Window window(-1, 3);
  const rapt::Or near{&causal, &window};
  const rapt::And combined{&own_block, &near};

  bool all_same = true;
  const auto compare = [&](const rapt::Mask& mask, auto allowed) {
    static bool pairs[n * n];  // [n, n], the same mask element by element, to compare with
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) pairs[i * n + j] = allowed(i, j);
    const rapt::Boolean boolean(rapt::TensorView(pairs, {n, n}));
    const auto mine = rapt::scaled_dot_product_attention(x, x, x, {.masks = {&mask}});
    const auto theirs = rapt::scaled_dot_product_attention(x, x, x, {.masks = {&boolean}});
    const bool same = std::memcmp(mine.output.data(), theirs.output.data(), 4 * n * dim) == 0;
    const rapt::Plan plan = rapt::plan(x, x, x, {.masks = {&mask}});
    std::printf("%-36s %3lld tiles computed, %3lld skipped; %s as the boolean matrix\n",
                rapt::to_string(mask).c_str(),
                static_cast<long long>(plan.tiles_computed + plan.tiles_partial),
                static_cast<long long>(plan.tiles_skipped),
                same ? "the same bits" : "NOT THE SAME");
    all_same = all_same && same;
  };
  const auto own = [](int64_t i, int64_t j) { return j == 0 || i / 16 == j / 16; };
  compare(own_block, own);
  compare(combined, [&](int64_t i, int64_t j) { return own(i, j) && j <= i + 3; });
  const rapt::Not others(&own_block);
  compare(others, [&](int64_t i, int64_t j) { return !own(i, j); });
  return all_same ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
